package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/eosbridge/eosbridge/test/kafka"
)

// TestClusterUpgrade raises transaction.version from 1 to 2 under load. The
// bridge that runs keeps to the rules of 1 until its next start; then one that
// was started after takes part; then the coordinator crashes and both have to
// deal with ids that have lived under either.
func TestClusterUpgrade(t *testing.T) {
	const feature = "transaction.version"
	c := startCluster(t, kafka.Options{Features: map[string]int16{feature: 1}})
	r, a := newRig(t, c, plan{place: apart})
	r.finalized(t, feature, 1)
	if !a.Log.Contains("transaction.version is below 2") {
		t.Error("the bridge does not know that the version is 1")
	}
	answers, err := r.adm.UpdateFeatures(within(t, patience), false, kadm.FeatureUpdate{
		Feature: feature, MaxVersionLevel: 2, UpgradeType: 1,
	})
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.finalized(t, feature, 2)
	r.commits(t, a)
	b := r.start(t, "b")
	r.commits(t, b)
	r.commits(t, a)

	first := r.coordinator(t, 0)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	r.commits(t, a)
	r.restart(t, first)
	r.commits(t, b)

	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = r.start(t, "a")
	r.commits(t, a)
	if a.Log.Contains("transaction.version is below 2") {
		t.Error("started after the upgrade, the bridge still takes the version for 1")
	}
	r.finish(t)
}

// finalized waits until the cluster says that a feature has this level.
func (r *rig) finalized(t *testing.T, feature string, level int16) {
	t.Helper()
	eventually(t, feature, func(ctx context.Context) error {
		levels, err := r.cluster.Features(ctx)
		if err == nil && levels[feature] != level {
			err = fmt.Errorf("%s is at %d", feature, levels[feature])
		}
		return err
	})
}
