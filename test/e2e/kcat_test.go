package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/kafka"
	"github.com/eosbridge/eosbridge/test/oracle"
)

// kcatFormat renders a record whole, null and empty told apart by the lengths.
const kcatFormat = `%p %o %T %K %S\n%k\n%s\n%h\n`

// kcatLine is how kcat renders r by kcatFormat.
func kcatLine(r *kgo.Record) []byte {
	length := func(field []byte) int {
		if field == nil {
			return -1
		}
		return len(field)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %d %d %d %d\n%s\n%s\n", r.Partition, r.Offset, r.Timestamp.UnixMilli(),
		length(r.Key), length(r.Value), r.Key, r.Value)
	for i, h := range r.Headers {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(h.Key + "=")
		if h.Value == nil {
			b.WriteString("NULL")
		}
		value, _, _ := bytes.Cut(h.Value, []byte{0}) // kcat prints no further
		b.Write(value)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// kcat reads a partition from its first offset to its end.
func kcat(ctx context.Context, brokers, topic string, partition int, isolation, format string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "kcat", "-C", "-q", "-e", "-b", brokers, "-t", topic, "-p", strconv.Itoa(partition),
		"-o", "beginning", "-X", "isolation.level="+isolation, "-X", "check.crcs=true", "-f", format)
	var said bytes.Buffer
	cmd.Stderr = &said
	read, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kcat: %w: %s", err, said.String())
	}
	return read, nil
}

// requireKcat wants kcat installed; where CI=true it is a failure if it is not.
func requireKcat(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err == nil {
		return
	}
	end := t.Skipf
	if os.Getenv("CI") == "true" {
		end = t.Fatalf
	}
	end("no kcat in PATH: install it (Debian: kcat), or run make setup-debian as root")
}

// errDisagree says that kcat has read something else than our reader.
var errDisagree = errors.New("kcat disagrees")

// sameRecords holds what kcat printed against the lines of our reader's records.
func sameRecords(ours [][]byte, kcats []byte) error {
	for i, line := range ours {
		rest, ok := bytes.CutPrefix(kcats, line)
		if !ok {
			return fmt.Errorf("%w: record %d of %d: %.300q, ours is %q", errDisagree, i, len(ours), kcats, line)
		}
		kcats = rest
	}
	if len(kcats) > 0 {
		return fmt.Errorf("%w: behind our %d records it has %.300q", errDisagree, len(ours), kcats)
	}
	return nil
}

// kcatAgrees reads the output with librdkafka, which shares no code with our
// reader: record by record it is the same. It returns how many records there are,
// and how many with those that are not committed.
func (r *rig) kcatAgrees(t *testing.T) (committed, all int) {
	t.Helper()
	ctx := within(t, patience)
	ours := make([][][]byte, r.plan.out)
	reading := r.reading()
	reading.Also = func(record *kgo.Record) {
		ours[record.Partition] = append(ours[record.Partition], kcatLine(record))
	}
	if _, err := oracle.ReadAll(ctx, reading, r.during); err != nil {
		t.Fatal(err)
	}
	for partition := range r.plan.out {
		theirs, err := kcat(ctx, r.cluster.Bootstrap(), r.out, partition, "read_committed", kcatFormat)
		if err == nil {
			err = sameRecords(ours[partition], theirs)
		}
		if err != nil {
			t.Errorf("partition %d: %v", partition, err)
		}
		open, err := kcat(ctx, r.cluster.Bootstrap(), r.out, partition, "read_uncommitted", `%o\n`)
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.Fields(string(open))
		committed += len(ours[partition])
		all += len(shown)
		offsets := make(map[string]bool, len(shown))
		for _, offset := range shown {
			offsets[offset] = true
		}
		for _, line := range ours[partition] {
			if offset := strings.Fields(string(line))[1]; !offsets[offset] {
				t.Errorf("partition %d: offset %s is committed, and read_uncommitted does not show it", partition, offset)
				break
			}
		}
	}
	return committed, all
}

// TestKcat lets librdkafka read what came out after kills, and after epochs that
// were aborted with all their output in the log.
func TestKcat(t *testing.T) {
	requireKcat(t)
	onBoth(t, func(t *testing.T, c *kafka.Cluster) {
		for name, run := range map[string]func(*testing.T, *rig, *Proxy){"kills": killWhileFed, "aborted epochs": abortWithOutput} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, proxy := behindProxy(t, c, plan{in: 2, out: 3, settings: map[string]string{"BRIDGE_RESTART_MAX_DELAY": "500ms"}})
				stopWatch := r.watched(t)
				run(t, r, proxy)
				stopWatch()
				r.exact(t)
				committed, all := r.kcatAgrees(t)
				t.Logf("kcat has read the same %d records; with those that are not committed %d", committed, all)
				if all < committed || name == "aborted epochs" && all == committed {
					t.Errorf("read_uncommitted shows %d, read_committed %d: was nothing aborted?", all, committed)
				}
				r.record(t, "read by kcat (librdkafka) as well")
			})
		}
	})
}

// killWhileFed feeds while the bridge is killed.
func killWhileFed(t *testing.T, r *rig, proxy *Proxy) {
	t.Helper()
	proxy.SetDelay(distance)
	k := newKiller(seeded(t), proxy)
	feed := r.feed(t, 2000)
	for k.kills < size(4, 20) {
		k.kill(t, r.start(t, "a"))
	}
	feed.finish(t)
	p := r.start(t, "a")
	awaitRunning(t, p)
	r.settle(t)
	stop(t, p)
}

// abortWithOutput feeds while the answers that an epoch needs are lost.
func abortWithOutput(t *testing.T, r *rig, proxy *Proxy) {
	t.Helper()
	feed := r.feed(t, 1000)
	p := r.start(t, "a")
	awaitCommit(t, p, 0)
	for _, rule := range []Rule{
		{Key: kmsg.TxnOffsetCommit, Fault: CutReset, Every: 1, Times: 1},
		{Key: kmsg.EndTxn, Fault: CutEOF, Every: 2, Times: size(2, 8)},
		{Key: kmsg.TxnOffsetCommit, Fault: Refuse, Every: 2, Times: size(2, 8)},
	} {
		proxy.Set(&rule)
		eventually(t, "a lost answer", func() bool { return proxy.Hits() >= rule.Times })
		mark := p.Log.Len()
		proxy.Set(nil)
		awaitCommit(t, p, mark)
	}
	feed.finish(t)
	r.settle(t)
	stop(t, p)
}

// TestKcatDisagrees: a record too many, one missing, and a change of any field is
// noticed.
func TestKcatDisagrees(t *testing.T) {
	form := oracle.NewForm(40, 3)
	var ours [][]byte
	var sound []byte
	for i := range int64(30) {
		r := form.Record(oracle.Origin{Source: oracle.Source{Topic: "in"}, Seq: i})
		r.Offset = 2 * i
		ours = append(ours, kcatLine(r))
		sound = append(sound, ours[i]...)
	}
	if err := sameRecords(ours, sound); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(r *kgo.Record){
		"offset":          func(r *kgo.Record) { r.Offset++ },
		"partition":       func(r *kgo.Record) { r.Partition++ },
		"key":             func(r *kgo.Record) { r.Key = []byte("key-x") },
		"null key":        func(r *kgo.Record) { r.Key = nil },
		"value":           func(r *kgo.Record) { r.Value[5] ^= 1 },
		"null value":      func(r *kgo.Record) { r.Value = nil },
		"timestamp":       func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(1e6) },
		"a header less":   func(r *kgo.Record) { r.Headers = r.Headers[:2] },
		"a header's byte": func(r *kgo.Record) { r.Headers[1].Value = []byte{1, 2, 3} },
	} {
		r := form.Record(oracle.Origin{Source: oracle.Source{Topic: "in"}, Seq: 29})
		r.Offset = 58
		change(r)
		altered := append(bytes.Clone(sound[:len(sound)-len(ours[29])]), kcatLine(r)...)
		if err := sameRecords(ours, altered); !errors.Is(err, errDisagree) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, read := range map[string][]byte{
		"nothing": nil, "one too many": append(bytes.Clone(sound), ours[3]...),
		"one missing": bytes.Replace(sound, ours[11], nil, 1), "cut short": sound[:len(sound)-1],
	} {
		if err := sameRecords(ours, read); !errors.Is(err, errDisagree) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
