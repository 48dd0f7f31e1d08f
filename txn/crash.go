//go:build crashpoints

package txn

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/internal/crashpoint"
)

// crashOptions let a slot's client come by the points that only it can see; see internal/crashpoint.
func crashOptions() []kgo.Opt { return []kgo.Opt{kgo.WithHooks(written{})} }

// written is called by the client between a request and its answer: what the kernel has taken the broker will get,
// although the process is gone.
type written struct{}

var _ kgo.HookBrokerWrite = written{}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (written) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		return
	}
	switch key {
	case kmsg.AddOffsetsToTxn.Int16():
		crashpoint.At("commit: AddOffsetsToTxn written")
	case kmsg.TxnOffsetCommit.Int16():
		crashpoint.At("commit: TxnOffsetCommit written")
	case kmsg.EndTxn.Int16():
		crashpoint.At("commit: EndTxn written")
	case kmsg.OffsetCommit.Int16():
		crashpoint.At("settle: OffsetCommit written")
	}
}
