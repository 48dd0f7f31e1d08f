package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// played runs a small demo with a stand-in bridge and returns what it printed.
func played(t *testing.T, kind string, options demoOptions) (string, error) {
	t.Helper()
	var out bytes.Buffer
	d := demo{options: options, out: &out, err: t.Output(), temp: t.TempDir(), executable: standIn(kind)}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	err := d.play(ctx)
	t.Logf("%v\n%s", err, out.String())
	if !options.keep {
		empty(t, d.temp)
	}
	return out.String(), err
}

// empty fails the test if the demo left something in its temporary folder.
func empty(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func number(t *testing.T, out, name string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^  ` + name + ` +([\d,]+)\b`).FindStringSubmatch(out)
	if match == nil {
		t.Fatalf("the report has no %q", name)
	}
	return match[1]
}

func TestDemoExact(t *testing.T) {
	t.Parallel()
	out, err := played(t, "exact", demoOptions{records: 3001, kills: 3, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"records in": "3,001", "records out": "3,001", "duplicated": "0", "lost": "0",
		"out of order": "0", "altered": "0", "kills": "3", "transactions left open": "0",
	} {
		if got := number(t, out, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if number(t, out, "epochs committed") == "0" {
		t.Error("no epoch committed")
	}
	if !strings.HasSuffix(out, "\nEXACTLY ONCE: yes\n") {
		t.Error("the last line is not the verdict")
	}
}

func TestDemoFindsDuplicates(t *testing.T) {
	t.Parallel()
	out, err := played(t, "doubling", demoOptions{records: 3000, kills: 3, seed: 1})
	if !errors.Is(err, errNotExact) {
		t.Fatalf("got %v, want errNotExact", err)
	}
	if number(t, out, "duplicated") == "0" || number(t, out, "lost") != "0" || !strings.HasSuffix(out, "\nEXACTLY ONCE: no\n") {
		t.Error("the duplicates are not reported")
	}
}

func TestDemoFindsLoss(t *testing.T) {
	t.Parallel()
	out, err := played(t, "losing", demoOptions{records: 3000, seed: 1})
	if !errors.Is(err, errNotExact) {
		t.Fatalf("got %v, want errNotExact", err)
	}
	if number(t, out, "lost") != "1" || number(t, out, "records out") != "2,999" {
		t.Error("the loss is not reported")
	}
}

func TestDemoBridgeFails(t *testing.T) {
	t.Parallel()
	out, err := played(t, "failing", demoOptions{records: 3000, seed: 1})
	var failed *demoBridgeError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a demoBridgeError", err)
	}
	for _, want := range []string{"ended by itself", "exit status 78", "BRIDGE_NONSENSE", `"state":"running"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q", want)
		}
	}
	if strings.Contains(err.Error(), "DEBUG") {
		t.Error("the error repeats debug lines")
	}
	if strings.Contains(out, "EXACTLY") {
		t.Error("a verdict without a finished run")
	}
}

func TestDemoBrokerFails(t *testing.T) {
	t.Parallel()
	_, err := played(t, "brokerless", demoOptions{records: 10, seed: 1})
	if err == nil || !strings.Contains(err.Error(), "cannot listen") {
		t.Errorf("got %v", err)
	}
}

// A second Ctrl-C is not needed: the first ends everything.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	first := &firstLines{until: regexp.MustCompile(`(?m)^ +[\d.]+ s .* out +[1-9]`), then: interrupt}
	d := demo{options: demoOptions{records: 400000, kills: 20, seed: 1}, out: first, err: t.Output(), temp: t.TempDir(), executable: standIn("exact")}
	done := make(chan error, 1)
	go func() { done <- d.play(ctx) }()
	<-ctx.Done()
	begin := time.Now()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v to end", took)
	}
	empty(t, d.temp)
}

// firstLines calls then once what was written matches until.
type firstLines struct {
	text  bytes.Buffer
	until *regexp.Regexp
	then  func()
}

func (f *firstLines) Write(p []byte) (int, error) {
	_, _ = f.text.Write(p)
	if f.until.Match(f.text.Bytes()) {
		f.then()
	}
	return len(p), nil
}

func TestDemoOnOwnCluster(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) { t.Parallel(); demoOnOwnCluster(t, keep) })
	}
}

func demoOnOwnCluster(t *testing.T, keep bool) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	address := strings.Join(cluster.ListenAddrs(), ",")
	out, err := played(t, "exact", demoOptions{kafka: address, records: 1000, kills: 1, seed: 1, keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out, "\nEXACTLY ONCE: yes\n") {
		t.Error("the last line is not the verdict")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := kadm.NewClient(client).ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, wantGroups, word := 1, 0, "deleted topics"
	if keep {
		want, wantGroups, word = 3, 1, "kept topics"
	}
	if len(topics) != want || len(groups) != wantGroups || !strings.Contains(out, word) {
		t.Errorf("keep %v: topics %v, groups %v", keep, topics.Names(), groups.Groups())
	}
}

func TestDemoClusterAway(t *testing.T) {
	t.Parallel()
	d := demo{options: demoOptions{kafka: "127.0.0.1:1", records: 1000}, out: t.Output(), err: t.Output(), executable: standIn("exact")}
	err := d.play(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}

// The parent's death closes the broker's standard input.
func TestDemoBrokerEndsWithStdin(t *testing.T) {
	t.Parallel()
	broker, err := startDemoBroker(t.Context(), standIn("exact")("demo", demoBrokerWord, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-broker.exited:
	case <-time.After(10 * time.Second):
		t.Error("the broker outlived its standard input")
	}
	broker.stop()
	if !broker.cmd.ProcessState.Success() {
		t.Errorf("%v: %s", broker.cmd.ProcessState, broker.stderr)
	}
}

func TestDemoBridgeStops(t *testing.T) {
	t.Parallel()
	committed := make(chan struct{})
	bridge, err := startDemoBridge(standIn("stubborn")("run"), func() { close(committed) })
	if err != nil {
		t.Fatal(err)
	}
	<-committed // its signals are caught now
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = bridge.stop(short)
	if err == nil || !strings.Contains(err.Error(), "did not stop in time") {
		t.Errorf("got %v", err)
	}
	if err := bridge.kill(); err == nil {
		t.Error("a bridge that was gone let itself be killed")
	}
}

func TestDemoBridgeMissing(t *testing.T) {
	t.Parallel()
	if _, err := startDemoBridge(exec.Command("/nowhere/eosbridge"), func() {}); err == nil {
		t.Error("started a program that does not exist")
	}
}
