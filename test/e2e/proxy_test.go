package e2e

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxied is a kfake broker with topic "t" behind a proxy, and a client that
// knows the proxy only.
func proxied(t *testing.T, opts ...kgo.Opt) (*Proxy, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	proxy, err := StartProxy(cluster.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(proxy.Addr()), kgo.DefaultProduceTopic("t"),
		kgo.RequestTimeoutOverhead(500 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return proxy, client
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestProxyPassesEverything: a client behind it sees nothing but the proxy's
// address, and a group, a transaction and a fetch all work. On kfake.
func TestProxyPassesEverything(t *testing.T) {
	proxy, client := proxied(t, kgo.TransactionalID("p.a.0"))
	ctx := within(t, 20*time.Second)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	host, port := proxy.hostPort()
	for _, b := range brokers {
		if b.Host != host || b.Port != port {
			t.Errorf("broker %d is at %s:%d, want the proxy's %s:%d", b.NodeID, b.Host, b.Port, host, port)
		}
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(proxy.Addr()), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.CloseAllowingRebalance()
	fetches := reader.PollFetches(ctx)
	if err := fetches.Err(); err != nil || fetches.NumRecords() != 1 {
		t.Errorf("%d records, %v", fetches.NumRecords(), err)
	}
}

// TestProxyFaults does each fault to the first two answers of a request: the
// client retries where a connection ended, and the broker acted or did not.
// On kfake.
func TestProxyFaults(t *testing.T) {
	for fault, acted := range map[Fault]bool{
		CutEOF: true, CutReset: true, Swallow: true, UnknownError: true, CutRequest: false, Refuse: false,
		ResetRequest: false, Hold: true, HushRequests: true, HushAnswers: true, // the last three later than the client waits
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			inform := fault == UnknownError || fault == Refuse // there is an answer
			proxy, client := proxied(t, kgo.RequestRetries(0))
			ctx := within(t, 20*time.Second)
			if err := client.Ping(ctx); err != nil {
				t.Fatal(err)
			}
			before, err := initProducer(ctx, client)
			if err != nil {
				t.Fatal(err)
			}
			var done atomic.Int64 // by the broker
			proxy.Tap(func(what Passing) {
				if what.Key == kmsg.InitProducerID.Int16() && what.Answer != nil {
					done.Add(1)
				}
			})
			proxy.Set(&Rule{Key: kmsg.InitProducerID, Fault: fault, Every: 1, Times: 2, For: time.Second})
			for i := range 2 {
				_, err := initProducer(ctx, client)
				for !inform && proxy.Hits() == i {
					_, err = initProducer(ctx, client) // the one before died with an old connection, unsent
				}
				if err == nil || errors.Is(err, kerr.UnknownServerError) != inform {
					t.Errorf("got %v", err)
				}
			}
			if proxy.Hits() != 2 {
				t.Errorf("%d hits, want 2", proxy.Hits())
			}
			if acted {
				eventually(t, "what was late", func() bool { return done.Load() == 2 })
			}
			// By another client: this one may still be burying its connection.
			fresh, err := kgo.NewClient(kgo.SeedBrokers(proxy.Addr()))
			if err != nil {
				t.Fatal(err)
			}
			defer fresh.Close()
			after, err := initProducer(ctx, fresh)
			if err != nil {
				t.Fatal(err)
			}
			bumps := int16(1)
			if acted {
				bumps = 3
			}
			if after-before != bumps {
				t.Errorf("the epoch went from %d to %d, want %d more", before, after, bumps)
			}
		})
	}
}

// TestProxyRefuses: the client hears of the failure of each partition, and the
// broker has nothing. On kfake.
func TestProxyRefuses(t *testing.T) {
	proxy, client := proxied(t, kgo.TransactionalID("p.a.0"))
	ctx := within(t, 20*time.Second)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	proxy.Set(&Rule{Key: kmsg.Produce, Fault: Refuse, Every: 1, Times: 1})
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); !errors.Is(err, kerr.UnknownServerError) {
		t.Errorf("produced: %v", err)
	}
	proxy.Set(&Rule{Key: kmsg.TxnOffsetCommit, Fault: Refuse, Every: 1, Times: 1})
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group = "p.a.0", "g"
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Partition = 3
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("got %+v", resp)
	}
	if p := resp.Topics[0].Partitions[0]; p.Partition != 3 || p.ErrorCode != kerr.UnknownServerError.Code {
		t.Errorf("got %+v", p)
	}
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup("t", 0); end.Offset != 0 {
		t.Errorf("the broker has %d records", end.Offset)
	}
}

// initProducer bumps the epoch of a transactional id and returns it: whether a
// lost request reached the broker shows in the next one's answer.
func initProducer(ctx context.Context, client *kgo.Client) (int16, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = kmsg.StringPtr("proxied")
	req.TransactionTimeoutMillis = 10_000
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	return resp.ProducerEpoch, kerr.ErrorForCode(resp.ErrorCode)
}

// TestProxyCounts: every third answer, and not more often than told. On kfake.
func TestProxyCounts(t *testing.T) {
	proxy, client := proxied(t)
	ctx := within(t, 20*time.Second)
	proxy.Set(&Rule{Key: kmsg.InitProducerID, Fault: UnknownError, Every: 3, Times: 2})
	for i := 1; i <= 12; i++ {
		_, err := initProducer(ctx, client)
		if failed, want := err != nil, i == 3 || i == 6; failed != want {
			t.Errorf("request %d: %v", i, err)
		}
	}
	proxy.Set(nil)
	if _, err := initProducer(ctx, client); err != nil || proxy.Hits() != 0 {
		t.Errorf("without a rule: %v, %d hits", err, proxy.Hits())
	}
}

// TestProxyDelays holds back an answer, and knows meanwhile that it is in flight.
// On kfake.
func TestProxyDelays(t *testing.T) {
	proxy, client := proxied(t)
	ctx := within(t, 20*time.Second)
	if err := client.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	const delay = 50 * time.Millisecond
	proxy.SetDelay(delay)
	eventually(t, "the answer's arrival", func() bool { return !proxy.InFlight(kmsg.Metadata) })
	since, next := time.Now(), proxy.Next(kmsg.Metadata)
	answered := make(chan error)
	go func() { answered <- client.Ping(ctx) }()
	<-next
	if !proxy.InFlight(kmsg.Metadata) {
		t.Error("no request is in flight before the answer")
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(since); took < delay {
		t.Errorf("an answer after %v, want %v or more", took, delay)
	}
}

// TestProxyOutlivesItsBroker: a target that is away looks like a dead broker.
func TestProxyOutlivesItsBroker(t *testing.T) {
	proxy, err := StartProxy("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(proxy.Addr()), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ping(within(t, 10*time.Second)); err == nil {
		t.Error("an answer from nobody")
	}
}

// TestProxyTaps shows a request and its answer, holds both meanwhile, and a copy
// of the request over another connection has an answer of its own. On kfake.
func TestProxyTaps(t *testing.T) {
	proxy, client := proxied(t)
	ctx := within(t, 20*time.Second)
	if err := client.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	shown, goOn := make(chan Passing), make(chan struct{})
	proxy.Tap(func(p Passing) {
		if p.Key == kmsg.EndTxn.Int16() {
			shown <- p
			<-goOn
		}
	})
	done := make(chan error)
	go func() {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID = "nobody", 7
		_, err := req.RequestWith(ctx, client)
		done <- err
	}()
	request := <-shown
	if req, err := readRequest(request.Request); err != nil || req.(*kmsg.EndTxnRequest).TransactionalID != "nobody" || request.Answer != nil {
		t.Errorf("shown %+v, %v", req, err)
	}
	answer, err := DeliverCopy(ctx, proxy.target, request.Request)
	if err != nil || answer == "NONE" {
		t.Errorf("a copy is answered %q, %v", answer, err)
	}
	goOn <- struct{}{}
	reply := <-shown
	resp, err := readAnswer(reply.Key, reply.Version, reply.Answer)
	if err != nil || Codes(resp) != answer {
		t.Errorf("the original is answered %+v, %v", resp, err)
	}
	select {
	case err := <-done:
		t.Errorf("the client has an answer that is held back, %v", err)
	default:
	}
	goOn <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
