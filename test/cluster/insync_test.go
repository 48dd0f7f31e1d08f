package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestClusterTooFewInSync takes nodes away until there are too few in-sync
// replicas to write anything: the bridge says that it is not ready, waits, and
// goes on by itself when they come back.
func TestClusterTooFewInSync(t *testing.T) {
	c := startCluster(t, kafka.Options{})
	for _, row := range []struct {
		name  string
		topic func(*rig) string // whose minimum is raised to 3, with one node away; nil = two nodes away
	}{
		{"two of three nodes away", nil},
		{"output", func(r *rig) string { return r.out }},
		{"positions", func(*rig) string { return positions }},
		{"transactions", func(*rig) string { return transactions }},
	} {
		t.Run(row.name, func(t *testing.T) {
			address := freeAddress(t)
			r, a := newRig(t, c, plan{place: together, settings: map[string]string{"BRIDGE_HTTP_ADDR": address}})
			eventually(t, "readiness", answers(address, http.StatusOK))
			// The coordinators' node stays: it is there, and may not write.
			stays := r.coordinator(t, 0)
			var away []*kafka.Node
			for _, n := range c.Nodes() {
				if n != stays {
					away = append(away, n)
				}
			}
			if row.topic != nil {
				away = away[:1]
				r.needInSync(t, row.topic(r), "3")
			}
			for _, n := range away {
				if err := n.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "that it is not ready", answers(address, http.StatusServiceUnavailable))
			pause(t, 5*time.Second)
			for _, n := range away {
				if err := n.Launch(); err != nil {
					t.Fatal(err)
				}
			}
			r.commits(t, a)
			eventually(t, "readiness", answers(address, http.StatusOK))
			eventually(t, "all replicas in sync", r.inSync)
			if row.topic != nil {
				r.needInSync(t, row.topic(r), "2")
			}
			r.finish(t)
			r.elect(t, r.allTopics(t)...)
		})
	}
}

// needInSync sets a topic's minimum of in-sync replicas.
func (r *rig) needInSync(t *testing.T, topic, least string) {
	t.Helper()
	eventually(t, "min.insync.replicas of "+topic, func(ctx context.Context) error {
		set := kadm.AlterConfig{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: &least}
		answers, err := r.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{set}, topic)
		if err != nil {
			return err
		}
		for _, answer := range answers {
			if answer.Err != nil {
				return fmt.Errorf("%w: %s", answer.Err, answer.ErrMessage)
			}
		}
		return nil
	})
}

// freeAddress is a loopback address nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// answers says whether /readyz answers with this status.
func answers(address string, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != status {
			return fmt.Errorf("/readyz answers %s", resp.Status)
		}
		return nil
	}
}
