package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestClusterDiskFull fills one of a broker's two disks while it leads an output
// partition there. Kafka takes the disk offline (with one disk the broker would
// halt) and others lead; the disk is back after it was freed and the broker
// started again.
func TestClusterDiskFull(t *testing.T) {
	volumes := map[int][]*Volume{1: {newVolume(t, 48), newVolume(t, 48)}}
	c := startCluster(t, kafka.Options{
		PerNode: func(id int) map[string]string {
			p := map[string]string{"metadata.log.dir": "metadata"} // a full one ends the node
			if v := volumes[id]; v != nil {
				p["log.dirs"] = v[0].Dir() + "," + v[1].Dir()
			}
			return p
		},
		// Room for the indexes of many partitions: 10 MiB each by default.
		Properties: map[string]string{"log.index.size.max.bytes": "65536"},
	})
	node := c.NodeByID(1)
	for _, end := range []string{"stopped in order", "killed"} {
		t.Run(end, func(t *testing.T) {
			r, a := newRig(t, c, plan{place: apart})
			r.lead(t, r.out, node)
			eventually(t, "all replicas in sync", r.inSync) // the two others have to be able to go on
			r.commits(t, a)
			full := r.volumeOf(t, volumes[1], node, r.out, 0)
			if err := full.Fill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the disk offline", func(ctx context.Context) error {
				return r.diskOffline(ctx, full, node)
			})
			eventually(t, "another leader", func(ctx context.Context) error {
				return r.ledElsewhere(ctx, r.out, 0, node)
			})
			if node.Pid() == 0 {
				t.Fatal("the broker ended: one of its two disks was full")
			}
			eventually(t, "two replicas in sync of everything", r.writable)
			r.commits(t, a)
			if err := full.Free(); err != nil {
				t.Fatal(err)
			}
			stop := node.Stop
			if end == "killed" {
				stop = node.Kill
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			r.restart(t, node)
			r.elect(t, r.allTopics(t)...)
			r.commits(t, a)
			r.finish(t)
			log, err := os.ReadFile(node.LogPath())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(log), "No space left on device") {
				t.Error("the broker did not notice that its disk was full")
			}
		})
	}
}

// volumeOf is the volume on which a node keeps a partition.
func (r *rig) volumeOf(t *testing.T, volumes []*Volume, node *kafka.Node, topic string, partition int32) *Volume {
	t.Helper()
	var set kadm.TopicsSet
	set.Add(topic, partition)
	dirs, err := r.adm.DescribeBrokerLogDirs(within(t, patience), int32(node.ID()), set)
	if err != nil {
		t.Fatal(err)
	}
	at, ok := dirs.LookupPartition(topic, partition)
	for _, v := range volumes {
		if ok && filepath.Clean(at.Dir) == v.Dir() {
			return v
		}
	}
	t.Fatalf("%s/%d is in %q, on none of the volumes", topic, partition, at.Dir)
	return nil
}

// diskOffline is nil when the node says that it cannot use the volume any more.
func (r *rig) diskOffline(ctx context.Context, full *Volume, node *kafka.Node) error {
	dirs, err := r.adm.DescribeBrokerLogDirs(ctx, int32(node.ID()), nil)
	if err != nil {
		return err
	}
	for dir, at := range dirs {
		if filepath.Clean(dir) == full.Dir() && errors.Is(at.Err, kerr.KafkaStorageError) {
			return nil
		}
	}
	return fmt.Errorf("%s is online", full.Dir())
}

func (r *rig) ledElsewhere(ctx context.Context, topic string, partition int32, node *kafka.Node) error {
	meta, err := r.metadata(ctx, topic)
	if err != nil {
		return err
	}
	if p := meta.Topics[topic].Partitions[partition]; p.Leader < 0 || p.Leader == int32(node.ID()) {
		return fmt.Errorf("%s/%d: leader %d, offline %v", topic, partition, p.Leader, p.OfflineReplicas)
	}
	return nil
}
