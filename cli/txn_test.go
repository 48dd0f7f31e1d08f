package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eosbridge/eosbridge/txn"
)

// txnBed is an embedded broker (kfake, not Apache Kafka) with a member pod-0 in the group and open transactions of it, of
// pod-1, and of somebody else.
func txnBed(t *testing.T) map[string]string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders-clean"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.CloseAllowingRebalance)
		return cl
	}
	client(kgo.ConsumerGroup("orders-bridge"), kgo.InstanceID("pod-0"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
	if _, err := c.WaitGroupStable(t.Context(), "orders-bridge", 1); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"orders-bridge.pod-0.0", "orders-bridge.pod-1.1", "shop"} {
		cl := client(kgo.TransactionalID(id))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders-clean"}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	environ := leastEnviron("KAFKA_BOOTSTRAP_SERVERS", strings.Join(c.ListenAddrs(), ","), "BRIDGE_EPOCH_TIMEOUT", "1ms", "BRIDGE_EPOCH_INTERVAL", "0s")
	for range 1000 { // until twice the epoch timeout has passed, pod-1 may be one that is starting
		if _, stdout, _ := runMain(environ, "txn", "list"); !strings.Contains(stdout, "  unknown  ") {
			break
		}
	}
	return environ
}

// TestTxnList: one block for each, for people and for programs, and the status is 0 whatever is found.
func TestTxnList(t *testing.T) {
	environ := txnBed(t)
	status, stdout, stderr := runMain(environ, "txn", "list")
	for _, want := range []string{
		"orders-bridge.pod-0.0  live  Ongoing for ", "    safe to abort: no: pod-0 is in the group orders-bridge",
		"orders-bridge.pod-1.1  dead  Ongoing for ", "owner pod-1, not in the group\n    holds back 2 offsets: orders-clean/0 from 1 (2)\n    safe to abort: yes: nobody",
		"shop  foreign  Ongoing for ",
		"3 open, 0 of them hanging; 6 offsets held back from read_committed readers\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	if status != exitOK || stderr != "" {
		t.Errorf("status %d: %s", status, stderr)
	}
	var seen txn.Inspection
	status, stdout, _ = runMain(environ, "txn", "list", "--json", "--prefix", "shop", "--group", "none")
	if err := json.Unmarshal([]byte(stdout), &seen); err != nil || status != exitOK {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	if len(seen.Transactions) != 3 || seen.Transactions[0].Kind != txn.KindForeign || len(seen.Unseen) != 1 {
		t.Errorf("%+v", seen)
	}
	status, stdout, stderr = runMain(environ, "txn", "describe", "orders-bridge.pod-1.1")
	for _, want := range []string{"orders-clean/0: first offset 1, last stable offset 0, high watermark 3\n", "coordinator: broker 0", "what ends it: a bridge that starts as pod-1, at once;"} {
		if !strings.Contains(stdout, want) || status != exitOK || stderr != "" {
			t.Errorf("%q is missing, status %d, in\n%s%s", want, status, stdout, stderr)
		}
	}
}

// TestTxnAbort: what is safe is aborted after a yes, the rest by force only.
func TestTxnAbort(t *testing.T) {
	environ := txnBed(t)
	for _, row := range []struct {
		args   string
		status int
		want   string
	}{
		{"orders-bridge.pod-1.1", exitUsage, "there is no terminal: add --yes"},
		{"orders-bridge.pod-0.0 --yes", exitFailure, "not safe to abort: orders-bridge.pod-0.0: pod-0 is in the group"},
		{"shop --yes", exitFailure, "not safe to abort: shop: its id does not have our prefix"},
		{"shop", exitFailure, "not safe to abort"},
		{"sho --yes --force", exitFailure, `no transaction "sho": see 'eosbridge txn list --all'`},
		{"orders-bridge.pod-1.1 --yes", exitOK, "orders-bridge.pod-1.1: aborted by InitProducerID; producer "},
		{"orders-bridge.pod-1.1 --yes", exitFailure, "nothing to abort under orders-bridge.pod-1.1"},
		{"--yes --force --json orders-bridge.pod-0.0", exitOK, `"acted": true`},
		{"shop --yes --force", exitOK, "orders-clean/0: last stable offset 6, high watermark 6"},
	} {
		status, stdout, stderr := runMain(environ, append([]string{"txn", "abort"}, strings.Fields(row.args)...)...)
		text := stderr
		if row.status == exitOK {
			text = stdout
		}
		if status != row.status || !strings.Contains(text, row.want) {
			t.Errorf("%s: status %d, want %d and %q in\n%s%s", row.args, status, row.status, row.want, stdout, stderr)
		}
	}
}

func TestTxnUsage(t *testing.T) {
	for line, want := range map[string]string{
		"txn":                 "a subcommand is missing",
		"txn lst":             "a subcommand is missing or unknown",
		"txn list --force":    "flag provided but not defined: -force; see eosbridge txn list --help",
		"txn list x":          `unexpected argument "x"`,
		"txn describe":        "name one transaction",
		"txn describe --all":  "flag provided but not defined: -all",
		"txn abort a b --yes": "name one transaction",
	} {
		code, stdout, stderr := runMain(leastEnviron(), strings.Fields(line)...)
		if code != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "eosbridge: "+want) {
			t.Errorf("%s: status %d, %q%q", line, code, stdout, stderr)
		}
	}
}
