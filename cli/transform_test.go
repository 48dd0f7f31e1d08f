package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/transform"
)

// runTransformCommand runs the command alone and returns what it printed.
func runTransformCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout strings.Builder
	err := transformCommand().run(t.Context(), &Context{Stdout: &stdout}, args)
	return stdout.String(), err
}

func TestTransformList(t *testing.T) {
	printed, err := runTransformCommand(t, "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range transform.Definitions() {
		if !strings.Contains(printed, d.Usage+"\n    "+d.Summary()+"\n") {
			t.Errorf("%s is not listed with its usage and summary in\n%s", d.Name, printed)
		}
	}
	if want := "\nroute(topic)\n    Sends the record to this topic of the output cluster instead of the default output.\n    example: route(orders-eu)\n\n"; !strings.Contains(printed, want) {
		t.Errorf("want %q in\n%s", want, printed)
	}
	if strings.Contains(printed, "example: identity") {
		t.Error("an example repeats the usage")
	}
}

func TestTransformListJSON(t *testing.T) {
	printed, err := runTransformCommand(t, "list", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var listed []map[string]string
	if err := json.Unmarshal([]byte(printed), &listed); err != nil {
		t.Fatal(err)
	}
	definitions := transform.Definitions()
	if len(listed) != len(definitions) {
		t.Fatalf("%d transforms listed, want %d", len(listed), len(definitions))
	}
	for i, d := range definitions {
		got := listed[i]
		if len(got) != 4 || got["name"] != d.Name || got["usage"] != d.Usage || got["doc"] != d.Doc || got["example"] != d.Example {
			t.Errorf("listed as %v, want %+v", got, d)
		}
	}
}

func TestTransformUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":             "a subcommand is missing",
		"lst":          `unknown subcommand "lst": use eosbridge transform list`,
		"--json":       `unknown subcommand "--json"`,
		"list --jsonn": "-jsonn",
		"list route":   `unexpected argument "route"; see eosbridge transform list --help`,
	} {
		printed, err := runTransformCommand(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q in it", args, err, want)
		}
		if code := exitCode(err); code != exitUsage {
			t.Errorf("%q: exit status %d, want %d", args, code, exitUsage)
		}
		if printed != "" {
			t.Errorf("%q: printed %q", args, printed)
		}
	}
}

// TestTransformHelpExample: what the help shows as an example is accepted.
func TestTransformHelpExample(t *testing.T) {
	_, rest, _ := strings.Cut(transformCommand().example, "BRIDGE_TRANSFORM='")
	expr, _, found := strings.Cut(rest, "'")
	if !found {
		t.Fatal("the example has no chain")
	}
	if _, err := transform.Parse(expr); err != nil {
		t.Error(err)
	}
}
