package check

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/topics"
)

var update = flag.Bool("update", false, "rewrite the generated parts of docs/check.md")

// The generated parts of docs/check.md lie between lines of these forms.
const (
	partBegin = "<!-- %s: generated, run go test ./check -run Document -update -->\n"
	partEnd   = "<!-- %s: end -->\n"
)

func rulesTable() string {
	var out strings.Builder
	out.WriteString("| Rule | What has to hold | FAIL | WARN |\n|---|---|---|---|\n")
	for _, r := range rules() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", r.name, r.asks, r.fails, r.warns)
	}
	return out.String()
}

func permissionsTable() string {
	o := Options{Group: "GROUP", Prefix: "PREFIX", Transactional: true, Plan: topics.Plan{}}
	var out strings.Builder
	out.WriteString("| Resource | Operation | Requests that ask for it | Needed |\n|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, p := range o.permissions([]string{"INPUT"}, []string{"OUTPUT"}) {
		resource := p.Resource + " `" + p.Name + "`"
		switch {
		case p.Prefixed:
			resource = p.Resource + " `" + p.Name + "`, prefixed"
		case p.Operation == kmsg.ACLOperationDescribeConfigs && p.Resource == "topic":
			resource = "topic `INPUT`, `OUTPUT`"
		case p.Resource == "cluster":
			resource = "cluster"
		}
		needed := "yes"
		if p.Optional {
			needed = "no"
		}
		if !seen[resource] {
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", resource, operation(p.Operation), p.Requests, needed)
		}
		seen[resource] = true
	}
	return out.String()
}

func TestDocument(t *testing.T) {
	const path = "../docs/check.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	for name, part := range map[string]string{"rules": rulesTable(), "permissions": permissionsTable()} {
		begin, end := fmt.Sprintf(partBegin, name), fmt.Sprintf(partEnd, name)
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has lost the lines %q and %q", path, begin, end)
		}
		want = before + begin + part + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("%s differs from the rules: run make docs", path)
	}
}
