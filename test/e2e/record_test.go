package e2e

import (
	"syscall"
	"testing"

	"github.com/eosbridge/eosbridge/test/proof"
)

// record hands on the last verdict on the pipeline, for the tables of docs/proof.md.
func (r *rig) record(t *testing.T, note string) {
	t.Helper()
	v := r.judged
	var seed uint64
	if used, ok := seeds.Load(t.Name()); ok {
		seed = used.(uint64)
	}
	proof.Record(t, proof.Result{
		Broker: r.cluster.Version(), Scenarios: 1, Kills: r.kills(), Records: v.In,
		Lost: v.Lost.Count, Duplicated: v.Duplicated.Count, OutOfOrder: v.OutOfOrder.Count, Torn: v.Torn.Count, LeftOpen: v.LeftOpen.Count,
		Seed: seed, Note: note,
	})
}

// kills counts the processes of the pipeline that were ended by SIGKILL.
func (r *rig) kills() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var n int64
	for _, l := range r.lives {
		if l.Alive() {
			continue
		}
		if status, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			n++
		}
	}
	return n
}
