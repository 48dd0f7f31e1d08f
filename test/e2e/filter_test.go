package e2e

import (
	"strings"
	"testing"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// keepBlocks keeps every fourth block of 200 records of a partition: at the
// tests' pace whole epochs are without output.
func keepBlocks(f *oracle.Form) {
	f.Keep = func(o oracle.Origin) bool { return o.Seq/200%4 == 0 }
}

// TestAllFilteredOut drops every record: the positions advance all the same,
// and no transaction is ever opened.
func TestAllFilteredOut(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		r := newRig(t, c, plan{
			in: 2, out: 3, settings: map[string]string{"BRIDGE_TRANSFORM": "filter_header(keep=yes)"},
			form: func(f *oracle.Form) { f.Keep = func(oracle.Origin) bool { return false } },
		})
		p := r.start(t, "a")
		feed := r.feed(t, 1000)
		// A position of a thousand while the feed goes on: epochs without output settle.
		eventually(t, "the positions' advance", func() bool { return r.position(t, 0) > 1000 })
		transactions, err := r.adm.ListTransactions(within(t, patience), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range transactions.Sorted() {
			if strings.HasPrefix(tx.TxnID, r.group+".") && tx.State != "Empty" && tx.State != "CompleteAbort" {
				t.Errorf("%s is %s, without any output", tx.TxnID, tx.State)
			}
		}
		feed.finish(t)
		r.settle(t)
		stop(t, p)
		r.exact(t)
		r.record(t, "")
	})
}

// TestFilteredUnderKills mixes epochs with and without output under kills.
func TestFilteredUnderKills(t *testing.T) {
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		killedRun(t, c, plan{
			in: 2, out: 3, form: keepBlocks,
			settings: map[string]string{"BRIDGE_TRANSFORM": "filter_header(keep=yes)"},
		}, size[int64](8_000, 50_000), size(6, 20))
	})
}
