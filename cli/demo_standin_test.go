package cli

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// standIn makes the demo's children out of this test binary: "demo broker DIR"
// is the real embedded broker, "run" is a small bridge of the given kind.
func standIn(kind string) func(args ...string) *exec.Cmd {
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestStandInProcess$", "--", kind}, args...)...)
		cmd.Env = []string{}
		return cmd
	}
}

// TestStandInProcess is not a test but the entry of such a child. Without
// arguments it has nothing to do.
func TestStandInProcess(t *testing.T) {
	args := flag.Args()
	if len(args) < 2 {
		return
	}
	if args[1] == "demo" {
		if args[0] == "brokerless" {
			_, _ = io.WriteString(os.Stderr, "cannot listen\n")
			os.Exit(3)
		}
		if err := serveDemoBroker(t.Context(), args[3], os.Stdin, os.Stdout); err != nil {
			t.Fatal(err)
		}
		return
	}
	stop, cancel := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer cancel()
	b := standInBridge{
		kind: args[0],
		env:  make(map[string]string),
		log:  slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		b.env[name] = value
	}
	b.log.Info("state changed", "state", "running")
	if err := b.run(stop); err != nil {
		b.log.Error("failed", "err", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// standInBridge copies input to output. Kinds: "exact" by transactions, "losing"
// the same without one record, "doubling" without transactions, "failing" ends
// with 78 after its third epoch, "stubborn" does not end at SIGTERM.
type standInBridge struct {
	kind string
	env  map[string]string
	log  *slog.Logger
}

func (b standInBridge) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(b.env["KAFKA_BOOTSTRAP_SERVERS"], ",")...),
		kgo.ConsumeTopics(b.env["BRIDGE_INPUT_TOPICS"]),
		kgo.ConsumerGroup(b.env["BRIDGE_GROUP_ID"]),
		kgo.InstanceID(b.env["BRIDGE_INSTANCE_ID"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
	}
}

func (b standInBridge) run(stop context.Context) error {
	if b.kind == "stubborn" {
		b.log.Info("epoch committed", "epoch", 1)
		select {}
	}
	if b.kind == "doubling" {
		return b.runDoubling(stop)
	}
	session, err := kgo.NewGroupTransactSession(append(b.options(),
		kgo.TransactionalID(b.env["BRIDGE_GROUP_ID"]+"."+b.env["BRIDGE_INSTANCE_ID"]+".0"))...)
	if err != nil {
		return err
	}
	defer session.Close()
	for epoch := 1; stop.Err() == nil; epoch++ {
		if err := session.Begin(); err != nil {
			return err
		}
		fetches := b.poll(stop, session.PollFetches)
		fetches.EachRecord(func(r *kgo.Record) {
			if out := b.copied(r); out != nil {
				session.Produce(stop, out, nil)
			}
		})
		committed, err := session.End(context.WithoutCancel(stop), kgo.TryCommit)
		if err != nil {
			return err
		}
		if committed && fetches.NumRecords() > 0 {
			b.log.Debug("epoch committed", "epoch", epoch)
		}
		if b.kind == "failing" && epoch == 3 {
			_, _ = fmt.Fprintln(os.Stderr, "bad configuration: BRIDGE_NONSENSE")
			os.Exit(78)
		}
	}
	return nil
}

// runDoubling commits its positions long after its records are out.
func (b standInBridge) runDoubling(stop context.Context) error {
	client, err := kgo.NewClient(append(b.options(), kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for epoch := 1; stop.Err() == nil; epoch++ {
		var copied []*kgo.Record
		for range 4 {
			b.poll(stop, client.PollFetches).EachRecord(func(r *kgo.Record) { copied = append(copied, b.copied(r)) })
			if err := client.ProduceSync(context.WithoutCancel(stop), copied...).FirstErr(); err != nil {
				return err
			}
			copied = nil
		}
		if err := client.CommitUncommittedOffsets(context.WithoutCancel(stop)); err != nil {
			return err
		}
		b.log.Debug("epoch committed", "epoch", epoch)
	}
	return nil
}

func (b standInBridge) poll(stop context.Context, poll func(context.Context) kgo.Fetches) kgo.Fetches {
	short, cancel := context.WithTimeout(stop, 100*time.Millisecond)
	defer cancel()
	return poll(short)
}

// copied is what becomes of a record; nil where the bridge loses it.
func (b standInBridge) copied(r *kgo.Record) *kgo.Record {
	if b.kind == "losing" && r.Partition == 1 && r.Offset == 100 {
		return nil
	}
	return &kgo.Record{Topic: b.env["BRIDGE_OUTPUT_TOPIC"], Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
}
