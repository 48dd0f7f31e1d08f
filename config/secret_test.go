package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const hunter = "hunter2"

// holder is what a secret usually sits in.
type holder struct {
	Password Secret
	Nested   struct{ Token *Secret }
	List     []Secret
	Map      map[string]Secret
	Any      any
}

func held() holder {
	s := Secret(hunter)
	h := holder{Password: s, List: []Secret{s}, Map: map[string]Secret{"k": s}, Any: s}
	h.Nested.Token = &s
	return h
}

func TestSecretIsMasked(t *testing.T) {
	s := Secret(hunter)
	shown := map[string]string{
		"Sprint":   fmt.Sprint(s),
		"Sprintln": fmt.Sprintln(s),
		"String":   s.String(),
		"GoString": s.GoString(),
		"error":    fmt.Errorf("wrapped: %w", errors.New(fmt.Sprint(s))).Error(),
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%q", "%s", "%x", "%X", "% x", "%d", "%T|%v", "%10s", "%-10v"} {
		args := []any{s}
		if strings.Contains(verb, "|") {
			args = []any{s, s}
		}
		shown[verb] = fmt.Sprintf(verb, args...)
		shown["struct "+verb] = fmt.Sprintf(strings.ReplaceAll(verb, "%T|", ""), held())
		shown["pointer "+verb] = fmt.Sprintf(strings.ReplaceAll(verb, "%T|", ""), &s)
	}
	for name, value := range map[string]any{"value": s, "struct": held(), "map": map[string]Secret{"k": s}} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		shown["json "+name] = string(text)
		for format, handler := range map[string]func(*bytes.Buffer) slog.Handler{
			"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
			"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		} {
			var b bytes.Buffer
			slog.New(handler(&b)).Info("x", "a", value, slog.Group("g", "b", value))
			shown["slog "+format+" "+name] = b.String()
		}
	}
	text, err := xml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	shown["xml"] = string(text)
	marshalled, err := s.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	shown["text"] = string(marshalled)
	for how, text := range shown {
		// In hexadecimal too: %x of a plain string would print that.
		if strings.Contains(text, hunter) || strings.Contains(strings.ToLower(strings.ReplaceAll(text, " ", "")), fmt.Sprintf("%x", hunter)) {
			t.Errorf("%s shows %q", how, text)
		}
		if !strings.Contains(text, mask) && !strings.HasPrefix(how, "pointer") {
			t.Errorf("%s shows no mask: %q", how, text)
		}
	}
	if s.Reveal() != hunter || string(s) != hunter {
		t.Error("Reveal does not give the text")
	}
}

// TestSecretInPanic runs a process that panics with a secret: the runtime prints the value by itself.
func TestSecretInPanic(t *testing.T) {
	if os.Getenv("CONFIG_TEST_PANIC") != "" {
		panic(Secret(os.Getenv("CONFIG_TEST_PANIC")))
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecretInPanic$")
	cmd.Env = append(os.Environ(), "CONFIG_TEST_PANIC="+hunter)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: ") {
		t.Fatalf("no panic: %v\n%s", err, out)
	}
	if strings.Contains(string(out), hunter) {
		t.Errorf("the panic shows the secret:\n%s", out)
	}
}

// TestConfigShowsNoSecret loads every secret and prints the whole configuration in every way.
func TestConfigShowsNoSecret(t *testing.T) {
	environ := with("KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "KAFKA_SASL_MECHANISM", "AWS_MSK_IAM", "AWS_ACCESS_KEY_ID", "AKIA",
		"SCHEMA_REGISTRY_URL", "https://a", "SCHEMA_REGISTRY_USERNAME", "u", "TARGET_SCHEMA_REGISTRY_URL", "https://b", "TARGET_SCHEMA_REGISTRY_USERNAME", "u")
	secrets := 0
	for _, v := range variables() {
		if v.secret() {
			environ[v.name] = hunter
			secrets++
		}
	}
	if secrets < 4 {
		t.Fatalf("only %d secrets are known", secrets)
	}
	c := load(t, environ)
	settings, err := json.Marshal(c.Settings())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", *c, *c, *c), fmt.Sprintf("%+v", c), fmt.Sprint(c.Settings()), string(settings), string(whole)} {
		if strings.Contains(text, hunter) {
			t.Errorf("shows a secret: %s", text)
		}
	}
	// And in every way to go wrong: each variable in turn holds the secret where something else belongs.
	for _, v := range variables() {
		if v.secret() {
			broken := with(v.name, hunter, v.name+fileSuffix, "/nonexistent", "KAFKA_SASL_MECHANISM", "PLAIN")
			if text := fmt.Sprint(problems(t, broken)); strings.Contains(text, hunter) {
				t.Errorf("%s: %s", v.name, text)
			}
		}
	}
}
