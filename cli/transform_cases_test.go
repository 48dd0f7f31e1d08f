package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/transform"
)

// casesFile writes a file of cases.
func casesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// helpCases are the cases that the help shows.
func helpCases(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(transformTestCommand().usage, "A file of cases:\n")
	text, _, found := strings.Cut(rest, "\nThe input is")
	if !found {
		t.Fatal("the help shows no cases")
	}
	return regexp.MustCompile(`(?m)^  `).ReplaceAllString(text, "")
}

func TestTransformTest(t *testing.T) {
	file := casesFile(t, helpCases(t))
	code, stdout, stderr := runMain(nil, "transform", "test", file)
	want := file + `: filter(value.region == "eu") | set(value.tier = "gold")
  ok    an order from Europe
  ok    any other order is dropped
  ok    not JSON
3 passed, 0 failed
`
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	code, stdout, stderr = runMain(nil, "transform", "test", "--chain", `set(value.tier = "silver")`, file)
	for _, part := range []string{
		"  FAIL  an order from Europe (line 4)\n        output 1, value: differs from byte 44 on\n          want …", "got  …", "from there want 67 6f 6c 64 22 7d, got  73 69 6c 76 65 72 22 7d",
		"  FAIL  any other order is dropped (line 7)\n        want 0 records, got 1 record\n          got  key null value '{\"id\":2,\"region\":\"us\",\"tier\":\"silver\"}'\n",
		"  ok    not JSON\n1 passed, 2 failed\n",
	} {
		if code != exitFailure || !strings.Contains(stdout, part) || stderr != "" {
			t.Errorf("status %d, %s, %q is missing in\n%s", code, stderr, part, stdout)
		}
	}
}

func TestTransformTestJSON(t *testing.T) {
	code, stdout, _ := runMain(map[string]string{"BRIDGE_TRANSFORM": "json_explode(.)"}, "transform", "test", casesFile(t, `
cases:
  - input: [{key: a, value: [1, 2]}, {key: b, value: [1.10]}]
    output: [{key: a, value: 1}, {value: 2}, {value: 1.10}]
  - name: refused
    input: [{value: "[]"}, {value: {}}]
    output: []
  - input: {value: "{}"}
    error: a number
  - input: {value: null}
    error: ''
`), "--json")
	var report testReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != exitFailure || report.Passed != 1 || report.Failed != 3 || len(report.Files) != 1 || report.Files[0].Chain != "json_explode(.)" {
		t.Fatalf("status %d, %s", code, stdout)
	}
	for i, want := range []string{"", "input 2 was refused: transform json_explode (stage 1): . is an object, not an array", "refused for another reason", "no record was refused"} {
		one := report.Files[0].Cases[i]
		if one.Passed != (want == "") || !strings.Contains(strings.Join(one.Faults, "\n"), want) {
			t.Errorf("case %d: %+v, want %q", i, one, want)
		}
	}
}

func TestTransformTestRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "the file is empty",
		"# nothing\n":            "the file",
		"cases: []":              "there is no list named cases",
		"a: 1\ncases: []":        `line 1: unknown name "a"`,
		"cases:\n  - input: {}":  "line 2: a case has either an output",
		"cases:\n  - output: []": "line 2: the case has no input",
		"cases:\n  - x":          "line 2: a case has to be a mapping with name, input, output, error",
		"cases: [{input: {}, output: [], error: x}]":            "a case has either an output",
		"cases: [{input: {}, input: {}, output: []}]":           "input is there twice",
		"cases: [{input: {valeu: 1}, output: []}]":              `line 1: not a record: json: unknown field "valeu"`,
		"cases:\n- input: {value: 0x1F}\n  output: []":          "line 2: 0x1F is a number of YAML",
		"cases:\n- input: {value: !!binary AA==}\n  output: []": "the tag !!binary means nothing here",
		"cases:\n- input: &a {value: [*a]}\n  output: []":       "nests deeper",
		"cases: [{input: {}, output: [{timestamp: noon}]}]":     "output 1: the timestamp",
		"cases: [{input: {}, output: []}]\n---\ncases: []":      "a second document",
		"cases: [": "yaml",
		"chain: drop(\ncases: [{input: {}, output: []}]": "the chain",
	} {
		code, stdout, stderr := runMain(nil, "transform", "test", casesFile(t, text))
		if code != exitConfig || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q, want %q", text, code, stderr, want)
		}
	}
	if code, _, stderr := runMain(nil, "transform", "test"); code != exitUsage || !strings.Contains(stderr, "no file of cases") {
		t.Errorf("no file: status %d, %s", code, stderr)
	}
	if code, _, stderr := runMain(nil, "transform", "test", "/nowhere.yaml"); code != exitFailure || stderr != "eosbridge: /nowhere.yaml: no such file or directory\n" {
		t.Errorf("unknown file: status %d, %s", code, stderr)
	}
}

// unsteady are transforms that break the contract in one way each.
var unsteady = map[string]func() transform.Transform{
	"not deterministic: input 2": func() transform.Transform { // counts the records it has seen
		n := 0
		return applied(func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			n++
			r := *in
			r.Value = append([]byte("seen "), byte('0'+n))
			return append(out, r), nil
		})
	},
	"output 1, value: differs from byte 0": func() transform.Transform { // writes all results into the same memory
		var memory [16]byte
		return applied(func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			r := *in
			r.Value = memory[:copy(memory[:], in.Value)]
			return append(out, r), nil
		})
	},
	"altered the record": func() transform.Transform {
		return applied(func(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
			in.Value[0] = 'X'
			return append(out, *in), nil
		})
	},
}

type applied func(in *transform.Record, out []transform.Record) ([]transform.Record, error)

func (f applied) Apply(in *transform.Record, out []transform.Record) ([]transform.Record, error) {
	return f(in, out)
}

// TestTransformTestFinds: the repetitions find what a single run does not show.
func TestTransformTestFinds(t *testing.T) {
	for want, build := range unsteady {
		_, cases, err := readCases([]byte("cases:\n- input: [{value: abc}, {value: defg}]\n  output: [{value: seen 1}, {value: seen 2}]\n- input: {value: h}\n  output: {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		tr := trial{build: build, cases: cases, faults: make([][]string, len(cases))}
		if err := tr.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if faults := strings.Join(tr.faults[0], "\n"); !strings.Contains(faults, want) {
			t.Errorf("want %q in\n%s", want, faults)
		}
		if n := strings.Count(strings.Join(tr.faults[0], "\n"), "not deterministic"); n > 1 {
			t.Errorf("%d faults of a replay for one case", n)
		}
	}
}
