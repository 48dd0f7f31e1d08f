package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// used matches our own metrics in an expression.
	used = regexp.MustCompile(`\beosbridge_[a-z_]+`)
	// documented matches a line of the table of docs/metrics.md.
	documented = regexp.MustCompile("(?m)^\\| `(eosbridge_[a-z_]+)` \\| (\\w+)")
	alertName  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
)

// unknown returns the metrics in text that docs/metrics.md, which is generated from the code, does not have.
func unknown(t *testing.T, text string) []string {
	t.Helper()
	known := map[string]bool{}
	for _, m := range documented.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		known[m[1]] = true
		if m[2] == "histogram" {
			known[m[1]+"_bucket"] = true
		}
	}
	if len(known) < 20 {
		t.Fatalf("only %d metrics found in docs/metrics.md", len(known))
	}
	var missing []string
	for _, name := range used.FindAllString(text, -1) {
		if !known[name] && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestAlertsAreWholeAndExplained(t *testing.T) {
	rules, runbook := read(t, "prometheus/alerts.yaml"), read(t, "../docs/runbook.md")
	names := alertName.FindAllStringSubmatch(rules, -1)
	if len(names) < 10 {
		t.Fatalf("only %d alerts found", len(names))
	}
	cases := read(t, "prometheus/alerts_test.yaml")
	for _, m := range names {
		if !strings.Contains(runbook, "\n### "+m[1]+"\n") {
			t.Errorf("docs/runbook.md has no entry for %s", m[1])
		}
		if !strings.Contains(rules, "/docs/runbook.md#"+strings.ToLower(m[1])+"\n") {
			t.Errorf("%s does not lead to its entry in the runbook", m[1])
		}
		if strings.Count(cases, m[1]) < 2 {
			t.Errorf("%s is not tested both while it fires and while it does not", m[1])
		}
	}
	if missing := unknown(t, rules+cases); missing != nil {
		t.Errorf("metrics that do not exist: %v", missing)
	}
}

// TestAlerts runs the unit tests of the alert rules.
func TestAlerts(t *testing.T) {
	promtool(t, "prometheus", "check", "rules", "alerts.yaml")
	promtool(t, "prometheus", "test", "rules", "alerts_test.yaml")
}

// promtool runs it in a folder; where CI=true it is a failure not to have it.
func promtool(t *testing.T, folder string, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		end := t.Skipf
		if os.Getenv("CI") == "true" {
			end = t.Fatalf
		}
		end("no promtool in PATH: install it (Debian: prometheus), or run make setup-debian as root")
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = folder
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

func TestDashboard(t *testing.T) {
	text := read(t, "grafana/eosbridge.json")
	type panel struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	var exprs []string
	for i, p := range dashboard.Panels {
		if seen[p.ID] {
			t.Errorf("panel %q has the id of another", p.Title)
		}
		seen[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is wider than the page", p.Title)
		}
		for _, other := range dashboard.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q overlap", p.Title, other.Title)
			}
		}
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
			if missing := unknown(t, target.Expr); missing != nil {
				t.Errorf("panel %q asks for metrics that do not exist: %v", p.Title, missing)
			}
			if !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("panel %q does not keep to the chosen instances: %s", p.Title, target.Expr)
			}
		}
	}
	promtool(t, rulesOf(t, exprs), "check", "rules", "rules.yaml")
}

// rulesOf writes expressions as rules, which is a form that promtool parses, and returns the folder.
func rulesOf(t *testing.T, exprs []string) string {
	t.Helper()
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	filled := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	for i, expr := range exprs {
		fmt.Fprintf(&rules, "      - record: panel:%d\n        expr: %q\n", i, filled.Replace(expr))
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}
