package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/offsets"
)

// stand is an embedded broker (kfake, not Apache Kafka) with a source, and a target that the test copies to.
type stand struct {
	*kfake.Cluster
	t   *testing.T
	cl  *kgo.Client
	adm *kadm.Client
	o   Options
}

func newStand(t *testing.T, topics ...kfake.Opt) *stand {
	t.Helper()
	t.Parallel()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, topics...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &stand{Cluster: c, t: t}
	s.cl = s.client()
	s.adm = kadm.NewClient(s.cl)
	s.o = Options{
		Group: "g", Inputs: []string{"in"}, Output: "out", Identity: true, Parallel: 2, Examples: 100,
		Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, Patience: 30 * time.Second,
	}
	return s
}

func (s *stand) client(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return cl
}

func (s *stand) write(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.cl.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// transaction writes records in one transaction of its own.
func (s *stand) transaction(commit kgo.TransactionEndTry, records ...*kgo.Record) {
	s.t.Helper()
	cl := s.client(kgo.TransactionalID(fmt.Sprintf("tx-%d", time.Now().UnixNano())))
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	if err := cl.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	if err := cl.EndTransaction(s.t.Context(), commit); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) commit(topic string, partition int32, offset int64) {
	s.t.Helper()
	var at kadm.Offsets
	at.AddOffset(topic, partition, offset, -1)
	if err := s.adm.CommitAllOffsets(s.t.Context(), s.o.Group, at); err != nil {
		s.t.Fatal(err)
	}
}

// odd are records in which something is easily lost.
func odd(topic string, partition int32, n int) []*kgo.Record {
	var list []*kgo.Record
	for i := range n {
		r := &kgo.Record{
			Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Appendf(nil, "%s/%d/%d", topic, partition, i),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i/3) + 1000*int64(partition)),
		}
		switch i % 9 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Key, r.Value = []byte{}, []byte{}
			r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, partition, i)}, {Key: "n"}, {Key: "", Value: []byte{}}}
		case 4:
			r.Value = []byte(strings.Repeat("long ", 100+i))
		}
		list = append(list, r)
	}
	return list
}

// to makes a copy of a record for another topic.
func to(topic string, partition int32, r *kgo.Record) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
}

func (s *stand) audit() *Report {
	s.t.Helper()
	r, err := Run(s.t.Context(), s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// expect audits and compares verdict and findings.
func (s *stand) expect(verdict Verdict, want map[Kind]int64) *Report {
	s.t.Helper()
	r := s.audit()
	if r.Verdict != verdict || !maps.Equal(r.Counts, want) {
		s.t.Errorf("%s with %v, want %s with %v\nexamples %v\nsources %+v\ntargets %+v", r.Verdict, r.Counts, verdict, want, r.Examples, r.Sources, r.Targets)
	}
	return r
}

// TestTransactions: markers and aborted records on both sides play no part, nor does what is beyond the position.
func TestTransactions(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(2, "in", "out"))
	records := odd("in", 0, 120)
	s.transaction(kgo.TryCommit, records[:40]...)
	s.transaction(kgo.TryAbort, odd("in", 0, 10)...)
	s.write(records[40:80]...)
	s.transaction(kgo.TryCommit, records[80:]...)
	var copies []*kgo.Record
	for _, r := range records {
		copies = append(copies, to("out", 0, r))
	}
	s.transaction(kgo.TryCommit, copies[:30]...)
	s.transaction(kgo.TryAbort, copies[30:60]...)
	s.transaction(kgo.TryCommit, copies[30:100]...)
	s.transaction(kgo.TryAbort, copies[100:]...)
	s.commit("in", 0, 100) // offsets 40 and 41 to 51 are a marker and an aborted transaction with its marker
	s.commit("in", 1, 0)
	r := s.expect(Pass, nil)
	if got := r.Sources[0]; got.Records != 88 || got.Verified != 100 || got.Checksum != r.Targets[0].Checksum || got.Method != "content" {
		t.Errorf("source %+v", got)
	}
	if got := r.Targets[0]; got.Records != 88 || len(got.Outside) != 1 || got.Outside[0].Records != 12 {
		t.Errorf("target %+v", got)
	}
	s.commit("in", 0, 125) // 13 more records than have been written
	r = s.expect(Faulty, map[Kind]int64{Missing: 13})
	if r.Examples[0].Source.Offset < 100 {
		t.Errorf("%v", r.Examples)
	}
}

// TestDetails: the smallest difference in any part of a record is an alteration.
func TestDetails(t *testing.T) {
	for name, change := range map[string]func(*kgo.Record){
		"nothing":      func(*kgo.Record) {},
		"key empty":    func(r *kgo.Record) { r.Key = []byte{} },
		"value empty":  func(r *kgo.Record) { r.Value = []byte{} },
		"value":        func(r *kgo.Record) { r.Value = []byte("x") },
		"header value": func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("2")}, {Key: "b"}} },
		"header order": func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "b"}, {Key: "a", Value: []byte("1")}} },
		"header empty": func(r *kgo.Record) {
			r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte{}}}
		},
		"header name":   func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "c"}} },
		"header gone":   func(r *kgo.Record) { r.Headers = r.Headers[:1] },
		"header twice":  func(r *kgo.Record) { r.Headers = append(r.Headers[:2:2], r.Headers[1]) },
		"header joined": func(r *kgo.Record) { r.Headers = []kgo.RecordHeader{{Key: "a1"}, {Key: "b"}} },
		"time":          func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, kfake.SeedTopics(1, "in", "out"))
			r := &kgo.Record{Topic: "in", Timestamp: time.UnixMilli(5), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}}}
			s.write(r)
			s.commit("in", 0, 1)
			c := to("out", 0, r)
			change(c)
			s.write(c)
			if name == "nothing" {
				s.expect(Pass, nil)
				return
			}
			s.expect(Faulty, map[Kind]int64{Altered: 1})
		})
	}
}

// copyAll copies the records of partition 0 and commits the end.
func (s *stand) copyAll(records []*kgo.Record) {
	s.t.Helper()
	s.write(records...)
	for _, r := range records {
		s.write(to("out", 0, r))
	}
	s.commit("in", 0, int64(len(records)))
}

// TestRetention: what is deleted on either side is not judged, and what is left is.
func TestRetention(t *testing.T) {
	for name, row := range map[string]struct {
		in, out int64 // deleted below
		verdict Verdict
		source  int64 // records of the source that are audited
	}{
		"nothing":         {0, 0, Pass, 300},
		"source":          {100, 0, Pass, 200},
		"all of source":   {300, 0, CannotTell, 0},
		"target":          {0, 100, CannotTell, 300},
		"source further":  {150, 100, Pass, 150},
		"target further":  {100, 150, CannotTell, 200},
		"both equally":    {100, 100, Pass, 200},
		"target, the end": {0, 299, CannotTell, 300},
	} {
		for _, provenance := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, provenance %v", name, provenance), func(t *testing.T) {
				s := newStand(t, kfake.SeedTopics(1, "in", "out"))
				s.o.Provenance = provenance
				records := odd("in", 0, 300)
				if !provenance {
					s.copyAll(records)
				} else {
					s.write(records...)
					for i, r := range records {
						s.write(marked(to("out", 0, r), "in", 0, int64(i), "1/1"))
					}
					s.commit("in", 0, 300)
				}
				for topic, below := range map[string]int64{"in": row.in, "out": row.out} {
					if err := s.DeleteRecords(topic, 0, below); err != nil {
						t.Fatal(err)
					}
				}
				if row.in == 300 {
					row.verdict = map[bool]Verdict{true: Pass, false: CannotTell}[provenance]
				}
				r := s.expect(row.verdict, nil)
				if got := r.Sources[0].Records; got != row.source && row.in < 300 {
					t.Errorf("%d records of the source were audited, want %d: %+v", got, row.source, r.Sources[0])
				}
			})
		}
	}
}

// marked adds provenance headers.
func marked(r *kgo.Record, topic string, partition int32, offset int64, output string) *kgo.Record {
	r.Headers = append(r.Headers[:len(r.Headers):len(r.Headers)],
		kgo.RecordHeader{Key: "eosbridge.topic", Value: []byte(topic)},
		kgo.RecordHeader{Key: "eosbridge.partition", Value: fmt.Append(nil, partition)},
		kgo.RecordHeader{Key: "eosbridge.offset", Value: fmt.Append(nil, offset)},
		kgo.RecordHeader{Key: "eosbridge.epoch", Value: []byte("7")},
		kgo.RecordHeader{Key: "eosbridge.output", Value: []byte(output)})
	return r
}

// TestFaultAfterRetention: a fault behind the place where the topics meet is found.
func TestFaultAfterRetention(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	records := odd("in", 0, 400)
	s.write(records...)
	for i, r := range records {
		if i != 300 {
			s.write(to("out", 0, r))
		}
	}
	s.commit("in", 0, 400)
	if err := s.DeleteRecords("in", 0, 100); err != nil {
		t.Fatal(err)
	}
	r := s.expect(Faulty, map[Kind]int64{Missing: 1})
	if got := r.Sources[0]; got.Verified != 300 {
		t.Errorf("verified %d", got.Verified)
	}
}

// TestStart: a bridge that began late owes nothing before, but only --from makes that a pass.
func TestStart(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	records := odd("in", 0, 300)
	s.write(records...)
	for _, r := range records[120:] {
		s.write(to("out", 0, r))
	}
	s.commit("in", 0, 300)
	s.expect(Faulty, map[Kind]int64{Missing: 120})
	s.o.Start.Kind = offsets.StartLatest
	if r := s.expect(CannotTell, nil); len(r.Sources[0].Undecided) != 1 || r.Sources[0].Undecided[0].Records != 120 {
		t.Errorf("%+v", r.Sources[0].Undecided)
	}
	var err error
	if s.o.From, err = ParseFrom("in/0=120"); err != nil {
		t.Fatal(err)
	}
	if r := s.expect(Pass, nil); r.Sources[0].From != 120 || r.Sources[0].Records != 180 {
		t.Errorf("%+v", r.Sources[0])
	}
	// A wrong word of the user is no finding about the bridge.
	if s.o.From, err = ParseFrom("in/0=150"); err != nil {
		t.Fatal(err)
	}
	s.expect(CannotTell, nil)
}

// TestCompacted: holes of a compacted source are nothing; an output without its record there cannot be judged.
func TestCompacted(t *testing.T) {
	s := newStand(t)
	compact := "compact"
	if _, err := s.adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &compact}, "in"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.adm.CreateTopic(t.Context(), 1, 1, nil, "out"); err != nil {
		t.Fatal(err)
	}
	records := odd("in", 0, 50)
	s.copyAll(records)
	s.expect(Pass, nil)
	s.write(&kgo.Record{Topic: "out", Value: []byte("its source may have been compacted away")})
	s.expect(CannotTell, nil)
}

// TestByKey: several source partitions, several target partitions, by the key.
func TestByKey(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(3, "in"), kfake.SeedTopics(4, "out"))
	s.o.ByKey = true
	hash := kgo.StickyKeyPartitioner(nil).ForTopic("out")
	copyOf := func(r *kgo.Record) *kgo.Record {
		if r.Key == nil {
			return to("out", r.Partition%4, r)
		}
		return to("out", int32(hash.Partition(r, 4)), r)
	}
	var copies []*kgo.Record
	all := [][]*kgo.Record{odd("in", 0, 200), odd("in", 1, 200), odd("in", 2, 200)}
	for i := range 200 {
		for p := range all {
			copies = append(copies, copyOf(all[p][i]))
		}
	}
	for p := range all {
		s.write(all[p]...)
		s.commit("in", int32(p), 200)
	}
	s.write(copies[:300]...)
	s.write(copies[301:400]...)
	s.write(copies[400], copies[400])
	s.write(copies[401:]...)
	r := s.expect(Faulty, map[Kind]int64{Missing: 1, Duplicated: 1})
	if got := r.Examples[0].Source; *got != (Place{"in", 0, 100}) {
		t.Errorf("missing %v", got)
	}
}

// TestDenied: an access error names the right and how to give it.
func TestDenied(t *testing.T) {
	for name, row := range map[string]struct {
		fault kfake.Fault
		want  []string
	}{
		"group": {kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.GroupAuthorizationFailed, Count: -1}, []string{`Describe of group "g"`, "--operation Describe --group 'g'"}},
		"topic": {kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1}, []string{`Read of topic "`, "--operation Read --topic '"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, kfake.SeedTopics(1, "in", "out"))
			s.copyAll(odd("in", 0, 10))
			s.Fault(row.fault)
			_, err := Run(t.Context(), s.o)
			var denied *DeniedError
			if !errors.As(err, &denied) || denied.ExitCode() != 77 {
				t.Fatalf("error %v", err)
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// TestInterrupted: an audit ends with its context and says why.
func TestInterrupted(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	s.copyAll(odd("in", 0, 10))
	open := s.client(kgo.TransactionalID("open"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(t.Context(), &kgo.Record{Topic: "out"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		cancel(why)
		return nil, nil, false
	})
	if _, err := Run(ctx, s.o); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}

// TestOpenTransaction: what an open transaction hides is not missing.
func TestOpenTransaction(t *testing.T) {
	s := newStand(t, kfake.SeedTopics(1, "in", "out"))
	records := odd("in", 0, 20)
	s.write(records...)
	for _, r := range records[:10] {
		s.write(to("out", 0, r))
	}
	open := s.client(kgo.TransactionalID("open"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range records[10:] {
		if err := open.ProduceSync(t.Context(), to("out", 0, r)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.commit("in", 0, 20)
	s.o.Patience = 0
	if r := s.expect(CannotTell, nil); r.Sources[0].Verified != 10 {
		t.Errorf("%+v", r.Sources[0])
	}
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	s.expect(Pass, nil)
}
