package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/transform"
)

func TestTransformList(t *testing.T) {
	code, printed, stderr := runMain(nil, "transform", "list")
	if code != exitOK || stderr != "" {
		t.Fatalf("status %d: %s", code, stderr)
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
	for _, d := range transform.Definitions() {
		if _, one, _ := runMain(nil, "transform", "list", d.Name); !strings.HasPrefix(one, d.Usage+"\n    "+d.Doc+"\n") {
			t.Errorf("%s by name: %s", d.Name, one)
		}
	}
}

func TestTransformListJSON(t *testing.T) {
	_, printed, _ := runMain(nil, "transform", "list", "--json")
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
		"":               "a subcommand is missing: use eosbridge transform list, test, run, bench",
		"lst":            `unknown subcommand "lst": did you mean "list"?`,
		"frobnicate":     `unknown subcommand "frobnicate": use eosbridge transform list, test, run, bench`,
		"--json":         `unknown subcommand "--json"`,
		"list --jsonn":   "-jsonn; see eosbridge transform list --help",
		"list rout":      `unknown transform "rout": did you mean "route"?`,
		"list zzzzzzzz":  `unknown transform "zzzzzzzz": see eosbridge transform list`,
		"run x":          `unexpected argument "x"; see eosbridge transform run --help`,
		"bench a b":      "2 files are named",
		"bench --for 0s": "--for 0s: use more than 0",
		"test --chain":   "flag needs an argument: -chain",
	} {
		code, printed, stderr := runMain(nil, append([]string{"transform"}, strings.Fields(args)...)...)
		if code != exitUsage || printed != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, printed %q, %q, want %q in it", args, code, printed, stderr, want)
		}
	}
}

// TestTransformHelp: each subcommand has help of its own, whose example calls it.
func TestTransformHelp(t *testing.T) {
	for _, cmd := range transformCommand().sub {
		for _, args := range [][]string{{"transform", cmd.name, "--help"}, {"help", "transform", cmd.name}} {
			code, stdout, _ := runMain(nil, args...)
			if code != exitOK || !strings.HasPrefix(stdout, "usage: eosbridge transform "+cmd.name) || !strings.Contains(cmd.example, "eosbridge transform "+cmd.name) {
				t.Errorf("%v: status %d\n%s", args, code, stdout)
			}
			for line := range strings.Lines(stdout) {
				if len([]rune(line)) > 121 || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
					t.Errorf("%v: untidy line %q", args, line)
				}
			}
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

// runWith runs a command line with a standard input.
func runWith(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = Main(Context{Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errOut})
	return code, out.String(), errOut.String()
}

func TestTransformRun(t *testing.T) {
	const chain = `json_explode(list) | set_header(n=1)`
	in := `{"key":"k","value":{"list":[1.10, "x"]},"headers":[{"key":"a","value_base64":"/w=="}]}` + "\r\n\n" +
		`{"value":{"list":[]}}` + "\n" +
		`{"topic":"orders","partition":2,"offset":7,"timestamp":5,"value":{"list":[{}]}}`
	want := `{"topic":"input","partition":0,"offset":0,"timestamp":"1970-01-01T00:00:00.000Z","key":"k","value":"1.10","headers":[{"key":"a","value_base64":"/w=="},{"key":"n","value":"1"}]}
{"topic":"input","partition":0,"offset":0,"timestamp":"1970-01-01T00:00:00.000Z","key":"k","value":"\"x\"","headers":[{"key":"a","value_base64":"/w=="},{"key":"n","value":"1"}]}
{"topic":"orders","partition":2,"offset":7,"timestamp":"1970-01-01T00:00:00.005Z","key":null,"value":{},"headers":[{"key":"n","value":"1"}]}
`
	if code, stdout, stderr := runWith(in, "transform", "run", "--chain", chain); code != exitOK || stdout != want || stderr != "" {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	bad := "{}\n{\"value\":{\"list\":1}}\nnonsense\n{\"value\":{\"list\":[2]}}\n"
	code, stdout, stderr := runWith(bad, "transform", "run", "--chain", chain)
	if code != exitFailure || strings.Count(stdout, "\n") != 1 || stderr != "eosbridge: line 2: transform json_explode (stage 1): list is a number, not an array\n" {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = runWith(bad, "transform", "run", "--keep-going", "--chain", chain)
	if code != exitFailure || strings.Count(stdout, "\n") != 2 || !strings.Contains(stderr, "line 3: not a record") || !strings.HasSuffix(stderr, "eosbridge: 2 records failed\n") {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := runWith("", "transform", "run", "--chain", "json_explode("); code != exitConfig || !strings.Contains(stderr, "the chain") {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// TestTransformRunLongLine: a line longer than any buffer arrives.
func TestTransformRunLongLine(t *testing.T) {
	value := strings.Repeat("x", 1<<20)
	code, stdout, stderr := runWith(`{"value":"`+value+`"}`+"\n", "transform", "run")
	if code != exitOK || !strings.Contains(stdout, value) || stderr != "" {
		t.Errorf("status %d, %s, %d bytes", code, stderr, len(stdout))
	}
}

func TestTransformBench(t *testing.T) {
	code, stdout, stderr := runWith("", "transform", "bench", "--for", "1ms", "--json", "--chain", `filter(value.region == "eu" && value.amount > 100) | set(value.tier = "gold")`)
	var all []benched
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != exitOK || len(all) != 2 {
		t.Fatalf("status %d, %s, %v\n%s", code, stderr, err, stdout)
	}
	if b := all[1]; all[0].Chain != "identity" || all[0].Results != 1 || b.Results < 0.2 || b.Results > 0.3 || b.Refused > 0 || b.Allocations <= 0 || b.PerSecond <= 0 {
		t.Errorf("%+v", all)
	}
	code, stdout, stderr = runWith("{\"value\":[1]}\n{\"value\":1}\n", "transform", "bench", "--for", "1ms", "--chain", "json_explode(.)", "-")
	if code != exitOK || !strings.Contains(stdout, "refused: ") || !strings.Contains(stdout, "at first input/0@1: transform json_explode") || stderr != "" {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := runWith("{}\n", "transform", "bench", "--for", "1ms", "--chain", "decompress(gzip) | json_explode(.)", "-"); code != exitOK {
		t.Errorf("status %d, %s", code, stderr)
	}
	if code, _, stderr := runWith("{\"value\":\"x\"}\n", "transform", "bench", "--for", "1ms", "--chain", "json_explode(.)", "-"); code != exitFailure || !strings.Contains(stderr, "refuses every record") {
		t.Errorf("status %d, %s", code, stderr)
	}
	if code, _, stderr := runWith("", "transform", "bench", "-"); code != exitFailure || !strings.Contains(stderr, "holds no record") {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// TestOrderEvents: the records for those who have none are what the help says.
func TestOrderEvents(t *testing.T) {
	for _, r := range orderEvents() {
		if len(r.Value) != 500 || !json.Valid(r.Value) {
			t.Fatalf("%d bytes: %s", len(r.Value), r.Value)
		}
	}
}
