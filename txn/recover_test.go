package txn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Invariants 5, 10: wherever an incarnation died, the fence of the next one settles what it left, and what is true then
// is whole. The dead one, should it live on, can do no more.
func TestOpenAfterDeath(t *testing.T) {
	for _, c := range []struct {
		name string
		die  func(b *bed, r *Ring) error // takes epoch 2 to the point of death
		held bool                        // readers are held up until the fence
		want int                         // epochs that are true afterwards
	}{
		{"before any output", func(b *bed, r *Ring) error { return r.Begin(b.ctx, 2) }, false, 1},
		{"flushed", func(b *bed, r *Ring) error { return b.precommit(r, 2, "2a", "2b") }, true, 1},
		{"flushed, the next too", func(b *bed, r *Ring) error {
			return errors.Join(b.precommit(r, 2, "2a", "2b"), b.precommit(r, 3, "3a", "3b"))
		}, true, 1},
		{"positions sent", func(b *bed, r *Ring) error {
			b.wire.lose(kmsg.EndTxn, cutBefore, always)
			return b.dies(r, 2)
		}, true, 1},
		{"positions sent, the next flushed", func(b *bed, r *Ring) error {
			b.wire.lose(kmsg.EndTxn, cutBefore, always)
			return errors.Join(b.dies(r, 2), b.precommit(r, 3, "3a", "3b"))
		}, true, 1},
		{"EndTxn not answered", func(b *bed, r *Ring) error {
			b.wire.lose(kmsg.EndTxn, cutAfter, always)
			return b.dies(r, 2)
		}, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				dead := b.open()
				b.mustEpoch(dead, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()}, "1a", "1b")
				if err := b.awaitReady(dead); err != nil {
					t.Fatal(err)
				}
				if err := c.die(b, dead); err != nil {
					t.Fatal(err)
				}
				b.wire.mend()
				if p := b.PartitionInfo("out", 0); (p.LastStableOffset < p.HighWatermark) != c.held {
					t.Errorf("before the fence readers are held up at %d of %d", p.LastStableOffset, p.HighWatermark)
				}

				r := b.open()
				b.expectReleased()
				output := []string{"1a", "1b", "2a", "2b"}[:2*c.want]
				b.expectPositions(10 * int64(c.want))
				b.expectOutput(output...)

				// The dead one comes back to life, and fails at whatever it does.
				if dead.slot[0].at() == StateFlushed {
					_, err := dead.Commit(b.ctx, Checkpoint{Epoch: 2, Positions: at(20), Credential: outsider()})
					expectClass(t, err, ErrInDoubt)
					if !MaybeFenced(err) {
						t.Errorf("%v does not ask for the wait before the ownership test", err)
					}
				}
				b.mustEpoch(r, Checkpoint{Epoch: 7, Positions: at(70), Credential: outsider()}, "7")
				b.expectPositions(70)
				b.expectOutput(append(output, "7")...)
			})
		})
	}
}

// dies takes an epoch through a commit that fails.
func (b *bed) dies(r *Ring, n Epoch) error {
	_, err := b.epoch(r, Checkpoint{Epoch: n, Positions: at(10 * int64(n)), Credential: outsider()}, fmt.Sprint(n, "a"), fmt.Sprint(n, "b"))
	if errors.Is(err, ErrInDoubt) {
		return nil
	}
	return fmt.Errorf("epoch %d is not in doubt: %w", n, err)
}

// Invariant 5: a fenced incarnation learns it from any of its requests; nothing that it sends becomes true.
func TestZombie(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		zombie := b.open()
		if err := b.precommit(zombie, 1, "zombie 1"); err != nil {
			t.Fatal(err)
		}
		b.open()
		expectClass(t, b.precommit(zombie, 2, "zombie 2"), ErrInDoubt)
		b.forget()
		_, err := zombie.Commit(b.ctx, Checkpoint{Epoch: 1, Positions: at(10), Credential: outsider()})
		expectClass(t, err, ErrInDoubt)
		if !MaybeFenced(err) {
			t.Errorf("commit: %v", err)
		}
		b.expectCount(kmsg.EndTxn, 0)
		b.expectPositions()
		b.expectOutput()
	})
}

// Invariant 10: while the brokers are away, or finish a transaction of ours, the fence is tried again.
func TestOpenTriesAgain(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		b := newBed(t)
		b.wire.down()
		opened := make(chan error, 1)
		go func() { // ends when the wire is mended
			r, err := Open(b.ctx, b.options())
			if err == nil {
				r.Close()
			}
			opened <- err
		}()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for b.wire.dials() < 8 { // more than two slots try three seeds once
			select {
			case err := <-opened:
				t.Fatal("gave up:", err)
			case <-tick.C:
			}
		}
		b.wire.mend()
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
	for _, code := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress} {
		t.Run(code.Message, func(t *testing.T) {
			b := newBed(t)
			refused := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: code, Count: 3})
			b.open()
			if refused.Hits() != 3 {
				t.Errorf("refused %d times", refused.Hits())
			}
		})
	}
}

// Open ends with its context, and then says why it had not come further.
func TestOpenGivesUp(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		b := newBed(t)
		b.wire.down()
		ctx, cancel := context.WithTimeout(b.ctx, 500*time.Millisecond)
		defer cancel()
		_, err := Open(ctx, b.options())
		expectClass(t, err, ErrAborted)
		if !Unreachable(err) {
			t.Errorf("%v does not say that no broker can be reached", err)
		}
	})
	t.Run("an answer that never comes, after refused dials", func(t *testing.T) {
		b := newBed(t)
		b.wire.down()
		ctx, cancel := context.WithCancel(b.ctx)
		defer cancel()
		o := b.options()
		dial, n := b.wire.dial, 0
		cl, err := kgo.NewClient(append(b.clientOptions(), kgo.TransactionalID("app.me.0"),
			kgo.Dialer(func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				if n++; n > 3 {
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return dial(ctx, network, address)
			}))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		_, _, err = fence(ctx, overRecords(cl), o.Log)
		if !errors.Is(err, context.Canceled) || !Unreachable(err) {
			t.Errorf("fence: %v", err)
		}
	})
	t.Run("a transaction that is never finished", func(t *testing.T) {
		b := newBed(t)
		b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.ConcurrentTransactions, Count: -1})
		ctx, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
		defer cancel()
		_, err := Open(ctx, b.options())
		expectClass(t, err, ErrAborted)
		if Unreachable(err) || !strings.Contains(err.Error(), "app.me.") {
			t.Errorf("open: %v", err)
		}
	})
}

// What no second attempt can mend ends Open at once, with the exit status.
func TestOpenFatal(t *testing.T) {
	refusing := func(code *kerr.Error) func(t *testing.T) *bed {
		return func(t *testing.T) *bed {
			b := newBed(t)
			b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: code, Count: -1})
			return b
		}
	}
	for name, c := range map[string]struct {
		bed    func(t *testing.T) *bed
		change func(o *Options)
		status int
		words  string
	}{
		"denied":   {bed: refusing(kerr.TransactionalIDAuthorizationFailed), status: StatusDenied, words: "access denied"},
		"too long": {bed: func(t *testing.T) *bed { return newBed(t) }, change: func(o *Options) { o.Timeout = 16 * time.Minute }, status: StatusConfig, words: "transaction.max.timeout.ms"},
		"too old":  {bed: refusing(kerr.UnsupportedVersion), status: StatusConfig, words: "does not support it"},
		"no transactions": {
			bed:    func(t *testing.T) *bed { return newBed(t, kfake.MaxVersions(kversion.V0_10_2())) },
			status: StatusConfig, words: "InitProducerID is unknown",
		},
		"options that make no client": {
			bed: func(t *testing.T) *bed { return newBed(t) },
			change: func(o *Options) {
				o.Client = func(...kgo.Opt) (*kgo.Client, error) { return nil, errors.New("no such file") }
			},
			status: StatusConfig, words: "app.me.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.bed(t)
			o := b.options()
			if c.change != nil {
				c.change(&o)
			}
			_, err := Open(b.ctx, o)
			var fatal *FatalError
			if !errors.As(err, &fatal) || fatal.ExitCode() != c.status || !strings.Contains(err.Error(), c.words) {
				t.Errorf("open: %v, want status %d and %q", err, c.status, c.words)
			}
			expectClass(t, err, ErrFatal)
		})
	}
}

// A refused password is no fatal error by itself: who has been let in before may be in the middle of a rotation.
func TestOpenWithAWrongPassword(t *testing.T) {
	b := newBed(t, kfake.EnableSASL())
	// kfake drops the connection; a broker answers.
	b.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return resp, nil, true
	})
	o := b.options()
	client := o.Client
	o.Client = func(opts ...kgo.Opt) (*kgo.Client, error) {
		return client(append(opts, kgo.SASL(scram.Auth{User: "admin", Pass: "wrong"}.AsSha256Mechanism()))...)
	}
	_, err := Open(b.ctx, o)
	if AdmissionOf(err) != CredentialsFail || !strings.Contains(err.Error(), "KAFKA_SASL_PASSWORD") {
		t.Errorf("open: %v", err)
	}
	expectClass(t, err, ErrAborted)
}

// If one of the ids cannot be fenced, nothing of the ring is left over.
func TestOpenIsAllOrNothing(t *testing.T) {
	b := newBed(t)
	b.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: kerr.TransactionalIDAuthorizationFailed, Count: -1,
		When: func(req kmsg.Request) bool { return *req.(*kmsg.InitProducerIDRequest).TransactionalID == "app.me.1" },
	})
	o := b.options()
	var made []*kgo.Client
	var mu sync.Mutex
	client := o.Client
	o.Client = func(opts ...kgo.Opt) (*kgo.Client, error) {
		cl, err := client(opts...)
		mu.Lock()
		defer mu.Unlock()
		made = append(made, cl)
		return cl, err
	}
	if _, err := Open(b.ctx, o); !errors.Is(err, ErrFatal) {
		t.Errorf("open: %v", err)
	}
	for _, cl := range made {
		if err := cl.Ping(b.ctx); !errors.Is(err, kgo.ErrClientClosed) {
			t.Errorf("a client was left open: ping: %v", err)
		}
	}
}

// Invariant 14: what the cluster has agreed upon, not what its brokers could do.
func TestProbe(t *testing.T) {
	t.Run("finalized", func(t *testing.T) {
		b := newBed(t)
		b.expectProbe(2)
		for _, level := range []int16{1, 2} {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			req.FeatureUpdates = []kmsg.UpdateFeaturesRequestFeatureUpdate{{Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: 2, AllowDowngrade: true}}
			if resp, err := req.RequestWith(b.ctx, b.cl); err != nil || resp.ErrorCode != 0 {
				t.Fatal(err, resp)
			}
			b.expectProbe(level)
		}
	})
	t.Run("absent", func(t *testing.T) { newOldBed(t).expectProbe(0) })
	t.Run("oldest", func(t *testing.T) { newBed(t, kfake.MaxVersions(kversion.V3_6_0())).expectProbe(0) })
	t.Run("too old", func(t *testing.T) {
		b := newBed(t, kfake.MaxVersions(kversion.V3_5_0()))
		_, err := Probe(b.ctx, b.adm, false)
		b.expectRefused(err, "broker ", "runs Kafka ", "3.6") // which one it guesses from all versions: kfake's fit none
	})
	t.Run("too old for the group protocol", func(t *testing.T) {
		b := newBed(t, kfake.MaxVersions(kversion.V4_2_0()))
		b.expectProbe(2)
		_, err := Probe(b.ctx, b.adm, true)
		b.expectRefused(err, "broker ", "runs Kafka ", "4.3", "BRIDGE_GROUP_PROTOCOL")
	})
	t.Run("new enough for the group protocol", func(t *testing.T) {
		b := newBed(t)
		if v, err := Probe(b.ctx, b.adm, true); v != 2 || err != nil {
			t.Errorf("probe: %d, %v", v, err)
		}
	})
}

func (b *bed) expectProbe(want int16) {
	b.t.Helper()
	if got, err := Probe(b.ctx, b.adm, false); got != want || err != nil {
		b.t.Errorf("probe: %d, %v; want %d", got, err, want)
	}
}

func (b *bed) expectRefused(err error, words ...string) {
	b.t.Helper()
	var fatal *FatalError
	if !errors.As(err, &fatal) || fatal.ExitCode() != StatusConfig {
		b.t.Errorf("probe: %v, want exit status %d", err, StatusConfig)
	}
	for _, w := range words {
		if !strings.Contains(fmt.Sprint(err), w) {
			b.t.Errorf("%v does not say %s", err, w)
		}
	}
}

// Invariant 14: a failed probe is no answer. Taken for "absent" it would choose the wrong requests.
func TestProbeFails(t *testing.T) {
	admin := func(b *bed) *kadm.Client {
		cl, err := kgo.NewClient(append(b.clientOptions(), kgo.Dialer(b.wire.dial), kgo.RequestRetries(1))...)
		if err != nil {
			t.Fatal(err)
		}
		b.t.Cleanup(cl.Close)
		return kadm.NewClient(cl)
	}
	t.Run("nobody listens", func(t *testing.T) {
		b := newBed(t)
		b.wire.down()
		_, err := Probe(b.ctx, admin(b), false)
		if err == nil || !Unreachable(err) || len(classes(Classify(CallInit, err))) != 1 {
			t.Errorf("probe: %v", err)
		}
	})
	t.Run("one broker does not answer", func(t *testing.T) {
		b := newBed(t)
		b.ControlKey(int16(kmsg.ApiVersions), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if b.CurrentNode() == 2 {
				return nil, errors.New("no"), true
			}
			return nil, nil, false
		})
		if v, err := Probe(b.ctx, admin(b), false); err == nil {
			t.Errorf("probe: %d and no error", v)
		}
	})
}

// Invariant 14: a cluster that lists no broker has told nothing. A single broker that stood still for longer than its
// session answers like that until the controller has counted it in again.
func TestProbeOfNoBroker(t *testing.T) {
	b := newBed(t)
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.Dialer(b.wire.dial))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	b.wire.change(kmsg.Metadata, always, func(_ string, resp kmsg.Response) {
		resp.(*kmsg.MetadataResponse).Brokers = nil
	})
	if got, err := Probe(b.ctx, kadm.NewClient(cl), false); err == nil || !strings.Contains(err.Error(), "no broker") {
		t.Errorf("probe: %d, %v", got, err)
	}
}

// Invariant 14: a broker that is gone has no say, or no bridge could start while one of many is down. The client
// keeps its list of brokers for minutes: the probe asks for a new one.
func TestProbeWithoutADeadBroker(t *testing.T) {
	t.Run("that the cluster has given up", func(t *testing.T) {
		b := newBed(t)
		b.expectProbe(2)
		if err := b.RemoveNode(1); err != nil {
			t.Fatal(err)
		}
		b.expectProbe(2)
		all, err := b.adm.ApiVersions(b.ctx)
		if err != nil || len(all) != 2 {
			t.Errorf("%d brokers known, %v", len(all), err)
		}
	})
	t.Run("that the cluster still lists", func(t *testing.T) {
		b := newBed(t)
		addresses := b.ListenAddrs()
		b.probeWithout(2, addresses[0])
		b.probeWithout(2, addresses[1])
		b.probeWithout(2, addresses[1], addresses[2])
	})
	t.Run("without features", func(t *testing.T) {
		b := newOldBed(t) // has no epoch of features, which is -1 then
		b.probeWithout(0, b.ListenAddrs()[1])
	})
}

// probeWithout probes where connections to these addresses are refused.
func (b *bed) probeWithout(want int16, refused ...string) {
	b.t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(refused, address) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	cl, err := kgo.NewClient(append(b.clientOptions(), kgo.RequestRetries(3), kgo.Dialer(dial))...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	if got, err := Probe(b.ctx, kadm.NewClient(cl), false); got != want || err != nil {
		b.t.Errorf("probe without %q: %d, %v; want %d", refused, got, err, want)
	}
}

// While a feature is being changed the brokers differ: the newest epoch of the features decides, whoever says it.
func TestProbeNewestEpoch(t *testing.T) {
	b := newBed(t)
	for newest := range 3 {
		cl, err := kgo.NewClient(append(b.clientOptions(), kgo.Dialer(b.wire.dial))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for _, level := range []int16{0, 1, 2} { // 0: taken away, 1 and 2: changed from the other
			b.wire.mend()
			b.wire.change(kmsg.ApiVersions, always, func(broker string, resp kmsg.Response) {
				r := resp.(*kmsg.ApiVersionsResponse)
				r.FinalizedFeaturesEpoch, r.FinalizedFeatures = 7, features(3-level)
				if broker == b.ListenAddrs()[newest] {
					r.FinalizedFeaturesEpoch, r.FinalizedFeatures = 8, features(level)
				}
			})
			if got, err := Probe(b.ctx, kadm.NewClient(cl), false); got != level || err != nil {
				t.Errorf("broker %d has the newest features: probe %d, %v; want %d", newest, got, err, level)
			}
		}
	}
}

func features(transactionVersion int16) []kmsg.ApiVersionsResponseFinalizedFeature {
	if transactionVersion == 0 {
		return nil
	}
	return []kmsg.ApiVersionsResponseFinalizedFeature{
		{Name: "metadata.version", MinVersionLevel: 29, MaxVersionLevel: 29},
		{Name: "transaction.version", MinVersionLevel: transactionVersion, MaxVersionLevel: transactionVersion},
	}
}
