package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eosbridge/eosbridge/config"
)

// assignment matches a line of the example, in force or commented out.
var assignment = regexp.MustCompile(`(?m)^#?([A-Z][A-Z0-9_]*)=(.*)$`)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExampleVariablesAreDocumented: a variable that was renamed would
// otherwise live on in the example.
func TestExampleVariablesAreDocumented(t *testing.T) {
	reference := read(t, "../docs/configuration.md")
	found := assignment.FindAllStringSubmatch(read(t, "eosbridge.env.example"), -1)
	if len(found) < 10 {
		t.Fatalf("only %d assignments found in the example", len(found))
	}
	for _, m := range found {
		// Of a secret the reference may name only the variable itself.
		name := strings.TrimSuffix(m[1], "_FILE")
		if !strings.Contains(reference, "`"+m[1]+"`") && !strings.Contains(reference, "`"+name+"`") {
			t.Errorf("%s is not in docs/configuration.md", m[1])
		}
	}
}

// TestExampleIsAConfiguration loads the example as it stands, and again with
// each commented line in force that needs no file and no partner.
func TestExampleIsAConfiguration(t *testing.T) {
	text := read(t, "eosbridge.env.example")
	environ, commented := map[string]string{}, map[string]string{}
	for _, m := range assignment.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[0], "#") {
			commented[m[1]] = m[2]
		} else {
			environ[m[1]] = m[2]
		}
		if strings.ContainsAny(m[2], `"'`) {
			t.Errorf("%s: systemd would drop the quotes, a container would keep them", m[0])
		}
	}
	if _, err := config.Load(environ, "bridge-0"); err != nil {
		t.Fatal(err)
	}
	for name, value := range commented {
		if strings.HasPrefix(name, "KAFKA_") {
			continue // they go together and name files
		}
		environ[name] = value
	}
	if _, err := config.Load(environ, "bridge-0"); err != nil {
		t.Error(err)
	}
}

func TestUnit(t *testing.T) {
	unit := read(t, "eosbridge.service")
	value := func(key string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("no %s", key)
		}
		return m[1]
	}
	c, err := config.Load(map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092", "BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "out",
		"BRIDGE_GROUP_ID": "group",
	}, "bridge-0")
	if err != nil {
		t.Fatal(err)
	}
	stop, err := time.ParseDuration(value("TimeoutStopSec"))
	if err != nil {
		t.Fatal(err)
	}
	if ours := c.Bridge.StopTimeout; stop < ours+5*time.Second {
		t.Errorf("TimeoutStopSec=%v kills a bridge that may need %v for its last commit", stop, ours)
	}
	// No shell in between, or the signal would not reach the bridge.
	if got := value("ExecStart"); got != "/usr/bin/eosbridge run" {
		t.Errorf("ExecStart=%s", got)
	}
	// What a restart does not cure, or, 75, makes worse.
	if got := value("RestartPreventExitStatus"); got != "64 70 75 77 78" {
		t.Errorf("RestartPreventExitStatus=%s", got)
	}
}

// TestTemplateUnit: the unit for several pipelines differs from the unit for one in its head, its name and its settings.
func TestTemplateUnit(t *testing.T) {
	one, several := read(t, "eosbridge.service"), read(t, "eosbridge@.service")
	_, one, _ = strings.Cut(one, "[Unit]")
	_, several, _ = strings.Cut(several, "[Unit]")
	one = strings.ReplaceAll(one, "Description=eosbridge,", "Description=eosbridge %i,")
	one = strings.ReplaceAll(one, "/etc/eosbridge/eosbridge.env", "/etc/eosbridge/%i.env")
	if one != several {
		t.Error("eosbridge.service and eosbridge@.service have grown apart: bring the change into both")
	}
}

func TestDockerfile(t *testing.T) {
	file := read(t, "../Dockerfile")
	for _, line := range []string{"FROM scratch", "USER 65532:65532", "ENV BRIDGE_HTTP_ADDR=:9464"} {
		if !strings.Contains(file, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	for _, key := range []string{"ENTRYPOINT", "CMD"} {
		m := regexp.MustCompile(`(?m)^` + key + ` (.*)$`).FindStringSubmatch(file)
		var args []string
		if m == nil || json.Unmarshal([]byte(m[1]), &args) != nil || len(args) == 0 {
			t.Errorf("%s is not in the exec form: a shell would keep SIGTERM from the bridge", key)
		}
	}
}

// TestDropInForWASM: it takes back what keeps compiled guests from being executed, and nothing else.
func TestDropInForWASM(t *testing.T) {
	var lines []string
	for line := range strings.Lines(read(t, "wasm.conf")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if got := strings.Join(lines, " "); got != "[Service] MemoryDenyWriteExecute=no" {
		t.Errorf("wasm.conf says %q", got)
	}
	if !strings.Contains(read(t, "eosbridge.service"), "\nMemoryDenyWriteExecute=yes\n") {
		t.Error("the unit does not set what wasm.conf takes back")
	}
}
