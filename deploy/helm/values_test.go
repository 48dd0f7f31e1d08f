package helm_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/eosbridge/eosbridge/config"
)

var update = flag.Bool("update", false, "write the table of values and, with -helm, the manifest anew")

const chart = "eosbridge"

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// value is one key of values.yaml, with its path and the comment above it.
type value struct {
	path, doc string
	node      *yaml.Node
}

// leaf says that the chart does not look below: a scalar, a list, or a mapping that is the user's.
func (v value) leaf() bool {
	return v.node.Kind != yaml.MappingNode || len(v.node.Content) == 0 || v.path == "resources" || strings.HasPrefix(v.path, "probes.")
}

// values are all keys of values.yaml, in its order.
func values(t *testing.T) []value {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	var all []value
	var walk func(node *yaml.Node, above string)
	walk = func(node *yaml.Node, above string) {
		for i := 0; i < len(node.Content); i += 2 {
			key, below := node.Content[i], node.Content[i+1]
			// A paragraph of its own is about the file.
			paragraphs := strings.Split(key.HeadComment, "\n\n")
			doc := strings.ReplaceAll(strings.ReplaceAll(paragraphs[len(paragraphs)-1], "\n# ", " "), "# ", "")
			v := value{above + key.Value, doc, below}
			all = append(all, v)
			if !v.leaf() {
				walk(below, v.path+".")
			}
		}
	}
	walk(document.Content[0], "")
	return all
}

// TestValuesReference holds the table of the chart's README to values.yaml: every key has its line and says what it is.
func TestValuesReference(t *testing.T) {
	var table strings.Builder
	table.WriteString("| Value | Default | Meaning |\n|---|---|---|\n")
	for _, v := range values(t) {
		if !v.leaf() {
			if v.doc != "" {
				fmt.Fprintf(&table, "| `%s` | | %s |\n", v.path, v.doc)
			}
			continue
		}
		if v.doc == "" {
			t.Errorf("%s has no comment", v.path)
		}
		var data any
		if err := v.node.Decode(&data); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.path, text, v.doc)
	}
	const begin, end = "<!-- begin: values -->\n", "<!-- end: values -->\n"
	name := chart + "/README.md"
	before, rest, ok := strings.Cut(read(t, name), begin)
	old, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", name)
	}
	switch {
	case old == table.String():
	case *update:
		if err := os.WriteFile(name, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not say what values.yaml says: run make docs", name)
	}
}

// schema is the part of JSON Schema that the chart's own uses.
type schema struct {
	AdditionalProperties any                        `json:"additionalProperties"`
	Properties           map[string]json.RawMessage `json:"properties"`
}

func parseSchema(t *testing.T, text []byte) schema {
	t.Helper()
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaNamesEveryValue compares the keys of values.yaml with those of the schema, both ways: what is in one only is
// refused, or read by no template.
func TestSchemaNamesEveryValue(t *testing.T) {
	named := map[string]bool{}
	var walk func(s schema, above string)
	walk = func(s schema, above string) {
		if above != "config." && s.AdditionalProperties != false {
			t.Errorf("%q takes properties that nobody reads", above)
		}
		for key, below := range s.Properties {
			path := above + key
			if path == "global" || string(below) == "false" { // Helm adds it; refused
				continue
			}
			named[path] = true
			if inner := parseSchema(t, below); len(inner.Properties) > 0 {
				walk(inner, path+".")
			}
		}
	}
	walk(parseSchema(t, []byte(read(t, chart+"/values.schema.json"))), "")
	for _, v := range values(t) {
		if !named[v.path] {
			t.Errorf("%s is not in values.schema.json", v.path)
		}
		delete(named, v.path)
	}
	for path := range named {
		t.Errorf("values.schema.json has %s, values.yaml has not", path)
	}
}

// TestSecretsAreRefused: a ConfigMap is no place for a secret, and neither is a values file.
func TestSecretsAreRefused(t *testing.T) {
	all := parseSchema(t, []byte(read(t, chart+"/values.schema.json")))
	configs := parseSchema(t, all.Properties["config"])
	secrets := regexp.MustCompile("(?m)^\\| `(\\w+)` .*\\*\\*Secret\\*\\*").FindAllStringSubmatch(read(t, "../../docs/configuration.md"), -1)
	if len(secrets) < 2 {
		t.Fatalf("only %d secrets found in docs/configuration.md", len(secrets))
	}
	for _, m := range secrets {
		if string(configs.Properties[m[1]]) != "false" {
			t.Errorf("values.schema.json lets config.%s be set", m[1])
		}
	}
}

// variants are the values that the chart is tried with, by name.
func variants(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("variants: %v, %v", files, err)
	}
	all := map[string]string{}
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), "-values.yaml")] = file
	}
	return all
}

// TestVariantsAreConfigurations: what the variants put into the environment is what the bridge takes.
func TestVariantsAreConfigurations(t *testing.T) {
	for name, file := range variants(t) {
		t.Run(name, func(t *testing.T) {
			var v struct {
				Config map[string]any
			}
			if err := yaml.Unmarshal([]byte(read(t, file)), &v); err != nil {
				t.Fatal(err)
			}
			environ := map[string]string{"BRIDGE_INSTANCE_ID": "eosbridge-0", "BRIDGE_HTTP_ADDR": ":9464"}
			for _, key := range slices.Sorted(maps.Keys(v.Config)) {
				environ[key] = fmt.Sprint(v.Config[key])
			}
			if environ["KAFKA_SASL_USERNAME"] != "" {
				password := filepath.Join(t.TempDir(), "password")
				if err := os.WriteFile(password, []byte("not this one\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				environ["KAFKA_SASL_PASSWORD_FILE"] = password
			}
			if _, err := config.Load(environ, "eosbridge-0"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAlerts: the chart cannot reach out of its folder, so it has a copy.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../prometheus/alerts.yaml")
	if os.IsNotExist(err) {
		if _, err := os.Stat(chart + "/alerts.yaml"); !os.IsNotExist(err) {
			t.Errorf("%s/alerts.yaml is a copy of deploy/prometheus/alerts.yaml, which is gone: %v", chart, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	copied := chart + "/alerts.yaml"
	if *update {
		if err := os.WriteFile(copied, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, copied) != string(text) {
		t.Errorf("%s is not deploy/prometheus/alerts.yaml: run make manifest", copied)
	}
}
