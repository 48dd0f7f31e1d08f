package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// dryRun runs run --dry-run in the rig's pipeline, to the end that the input has now, and answers how many records it
// has read and how many it would have written.
func (r *rig) dryRun(t *testing.T) (read, out int64) {
	t.Helper()
	cmd := exec.CommandContext(within(t, patience), bridgeBinary(t), "run", "--dry-run", "--until-end", "--records", "1000000", "--for", patience.String(), "--json")
	cmd.Env = r.environ("dry", map[string]string{"LOG_LEVEL": "info"})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	var report struct{ Read, Out int64 }
	if err != nil || json.Unmarshal(printed, &report) != nil {
		t.Fatalf("%v: %s\n%s", err, printed, stderr.String())
	}
	return report.Read, report.Out
}

// standing is what a dry run must leave alone: the group's positions and members, the output's ends, the transactions.
func (r *rig) standing(t *testing.T) string {
	t.Helper()
	ctx := within(t, patience)
	var lines []string
	positions, err := r.adm.FetchOffsets(ctx, r.group)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range positions.Sorted() {
		lines = append(lines, fmt.Sprintf("position %s/%d %d", o.Topic, o.Partition, o.At))
	}
	groups, err := r.adm.DescribeGroups(ctx, r.group)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Sorted() {
		lines = append(lines, fmt.Sprintf("group %s %s, %d members", g.Group, g.State, len(g.Members)))
	}
	ends, err := r.adm.ListEndOffsets(ctx, r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range ends.Offsets().Sorted() {
		lines = append(lines, fmt.Sprintf("end %s/%d %d", end.Topic, end.Partition, end.At))
	}
	transactions, err := r.adm.ListTransactions(ctx, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range transactions.Sorted() {
		if strings.HasPrefix(tx.TxnID, r.group+".") || strings.Contains(tx.TxnID, "dry") {
			lines = append(lines, fmt.Sprintf("transaction %s of %d %s", tx.TxnID, tx.ProducerID, tx.State))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestDryRun: beside a bridge that runs and one that has stopped, a dry run reads what the bridge would read next, and
// leaves positions, output, group and transactions as they are.
func TestDryRun(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{in: 2, out: 3})
		p := r.start(t, "a")
		r.feedNow(t, 1000)
		r.settle(t)
		before := r.standing(t)
		if read, _ := r.dryRun(t); read != 0 {
			t.Errorf("%d records are read where nothing is left", read)
		}
		if after := r.standing(t); after != before {
			t.Errorf("beside the bridge:\n%s\nwas before\n%s", after, before)
		}
		stop(t, p)
		r.feedNow(t, 500)
		before = r.standing(t)
		if read, out := r.dryRun(t); read != 500 || out != 500 {
			t.Errorf("%d records read, %d would be written, want 500", read, out)
		}
		if after := r.standing(t); after != before || !strings.Contains(before, "position") || !strings.Contains(before, "transaction") {
			t.Errorf("after the bridge:\n%s\nwas before\n%s", after, before)
		}
		r.start(t, "a")
		r.exact(t)
	})
}
