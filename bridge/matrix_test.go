package bridge

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eosbridge/eosbridge/test/proof"
	"github.com/eosbridge/eosbridge/txn"
)

var long = flag.Bool("long", false, "full size: all rows of the matrices")

// moment is what a bridge is doing when its request is answered with an error.
type moment int

const (
	atWork     moment = iota // records flow
	starting                 // the process begins
	restarting               // a session has failed and the next one begins
	rejoining                // the group rebalances while records flow
	carrying                 // records are dropped, so positions are committed plainly
)

// phase is a part of the fault matrix: a request of the protocol at a moment at which it may be refused.
type phase struct {
	name string
	key  kmsg.Key
	when moment
	call txn.Call // whose classes hold

	topLevel bool // where the answer has its code
	narrow   func(*kfake.Fault)

	consumer bool // in a group of KIP-848
	below2   bool // on a cluster without transaction.version
	// lost says that the client leaves the group on any error that it does not get over. It tells of the loss first,
	// and nothing can have been committed by then.
	lost bool
}

func onlyIf[R kmsg.Request](holds func(R) bool) func(*kfake.Fault) {
	return func(f *kfake.Fault) {
		f.When = func(r kmsg.Request) bool {
			req, ok := r.(R)
			return ok && holds(req)
		}
	}
}

// phases are those of testdata/matrix.txt.
var phases = []phase{
	{
		name: "init", key: kmsg.InitProducerID, when: starting, call: txn.CallInit, topLevel: true,
		narrow: onlyIf(func(r *kmsg.InitProducerIDRequest) bool { return r.TransactionalID != nil }),
	},
	{
		name: "find transaction coordinator", key: kmsg.FindCoordinator, when: starting, call: txn.CallInit,
		narrow: onlyIf(func(r *kmsg.FindCoordinatorRequest) bool { return r.CoordinatorType == 1 }),
	},
	{
		name: "find group coordinator", key: kmsg.FindCoordinator, when: starting, call: txn.CallGroup,
		narrow: onlyIf(func(r *kmsg.FindCoordinatorRequest) bool { return r.CoordinatorType == 0 }),
	},
	{name: "metadata of the input", key: kmsg.Metadata, when: starting, call: txn.CallFetch, narrow: ofTopic("in")},
	{name: "metadata of the output", key: kmsg.Metadata, when: starting, call: txn.CallProduce, narrow: ofTopic("out")},
	{name: "produce", key: kmsg.Produce, call: txn.CallProduce, narrow: ofTopic("out")},
	{name: "add partitions", key: kmsg.AddPartitionsToTxn, call: txn.CallProduce, below2: true},
	{name: "add offsets", key: kmsg.AddOffsetsToTxn, call: txn.CallOffsets, below2: true},
	{name: "txn offset commit", key: kmsg.TxnOffsetCommit, call: txn.CallOffsets},
	{name: "txn offset commit below 2", key: kmsg.TxnOffsetCommit, call: txn.CallOffsets, below2: true},
	{name: "end txn", key: kmsg.EndTxn, call: txn.CallEnd, topLevel: true},
	{name: "end txn below 2", key: kmsg.EndTxn, call: txn.CallEnd, topLevel: true, below2: true},
	{name: "offset commit", key: kmsg.OffsetCommit, when: carrying, call: txn.CallPlain},
	{name: "fetch", key: kmsg.Fetch, call: txn.CallFetch, narrow: ofTopic("in")},
	{name: "offset fetch", key: kmsg.OffsetFetch, when: starting, call: txn.CallGroup},
	{name: "offset fetch of a partition", key: kmsg.OffsetFetch, when: starting, call: txn.CallFetch, narrow: ofTopic("in")},
	{name: "heartbeat", key: kmsg.Heartbeat, call: txn.CallGroup, topLevel: true, lost: true},
	{name: "join", key: kmsg.JoinGroup, when: starting, call: txn.CallGroup, topLevel: true, lost: true},
	{name: "sync", key: kmsg.SyncGroup, when: starting, call: txn.CallGroup, topLevel: true, lost: true},
	{name: "join again", key: kmsg.JoinGroup, when: rejoining, call: txn.CallGroup, topLevel: true, lost: true},
	{name: "sync again", key: kmsg.SyncGroup, when: rejoining, call: txn.CallGroup, topLevel: true, lost: true},
	{name: "leave", key: kmsg.LeaveGroup, when: restarting, call: txn.CallGroup, topLevel: true},
	{
		name: "first consumer heartbeat", key: kmsg.ConsumerGroupHeartbeat, when: starting, call: txn.CallGroup, topLevel: true, consumer: true, lost: true,
		narrow: onlyIf(func(r *kmsg.ConsumerGroupHeartbeatRequest) bool { return r.MemberEpoch == 0 }),
	},
	{
		name: "consumer heartbeat", key: kmsg.ConsumerGroupHeartbeat, call: txn.CallGroup, topLevel: true, consumer: true, lost: true,
		narrow: onlyIf(func(r *kmsg.ConsumerGroupHeartbeatRequest) bool { return r.MemberEpoch > 0 }),
	},
}

// fault makes the cluster refuse the phase's request.
func (p *phase) fault(code *kerr.Error, count int) kfake.Fault {
	f := kfake.Fault{Keys: []kmsg.Key{p.key}, Err: code, Count: count, TopLevel: p.topLevel}
	if p.narrow != nil {
		p.narrow(&f)
	}
	return f
}

// matrixCodes are the codes of every phase: those that a transactional producer, a group member or a fetcher may be
// answered by a broker, in the order in which the protocol's error table groups them.
var matrixCodes = []*kerr.Error{
	kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions,
	kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
	kerr.KafkaStorageError, kerr.ReplicaNotAvailable,
	kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.UnknownServerError, kerr.TransactionAbortable,
	kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID,
	kerr.OutOfOrderSequenceNumber, kerr.DuplicateSequenceNumber, kerr.InvalidTxnState, kerr.TransactionCoordinatorFenced, kerr.OperationNotAttempted,
	kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch, kerr.RebalanceInProgress,
	kerr.FencedInstanceID, kerr.UnreleasedInstanceID, kerr.UnstableOffsetCommit,
	kerr.TransactionalIDAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
	kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.IllegalSaslState, kerr.UnsupportedSaslMechanism,
	kerr.InvalidTransactionTimeout, kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.InvalidTimestamp, kerr.PolicyViolation,
	kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize, kerr.OffsetOutOfRange, kerr.UnknownTopicID, kerr.InconsistentTopicID,
	// Beyond the table: what else groups, fetches and quotas answer.
	kerr.NetworkException, kerr.InvalidRequest, kerr.GroupIDNotFound, kerr.FetchSessionIDNotFound, kerr.InvalidFetchSessionEpoch,
	kerr.UnsupportedCompressionType, kerr.OffsetNotAvailable, kerr.MemberIDRequired, kerr.GroupMaxSizeReached, kerr.InconsistentGroupProtocol,
	kerr.InvalidSessionTimeout, kerr.InvalidGroupID, kerr.InvalidTopicException, kerr.UnsupportedAssignor, kerr.ThrottlingQuotaExceeded,
}

//go:embed testdata/matrix.txt
var matrixText string

// cell is what must happen to one code in one phase.
type cell struct {
	code        *kerr.Error
	once, often expectation
	first       bool // of its group, or named by itself
}

// expectation is an action of the matrix: R, A, X, an exit status, or - for a row that is not tried.
type expectation struct {
	action string
	odd    bool // marked: it does not follow from txn.Classify
}

func expected(s string) expectation {
	action, odd := strings.CutSuffix(s, "!")
	return expectation{action, odd}
}

// parseMatrix reads the format that testdata/matrix.txt explains.
func parseMatrix(text string) (map[string][]cell, error) {
	byName := map[string]*kerr.Error{}
	for _, code := range matrixCodes {
		byName[code.Message] = code
	}
	matrix, groups := map[string][]cell{}, map[string][]string{}
	name, lines := "", map[string][]matrixLine{}
	for text := range strings.Lines(text) {
		text, _, _ = strings.Cut(text, "#")
		fields := strings.Fields(text)
		switch {
		case len(fields) == 0:
		case strings.HasPrefix(text, "["):
			if name = strings.Trim(strings.TrimSpace(text), "[]"); lines[name] != nil {
				return nil, fmt.Errorf("phase %q comes twice", name)
			}
		case len(fields) < 3:
			return nil, fmt.Errorf("phase %q: line %q has no codes", name, text)
		case fields[1] == "=":
			groups[fields[0]] = append(groups[fields[0]], fields[2:]...)
		default:
			lines[name] = append(lines[name], matrixLine{expected(fields[0]), expected(fields[1]), fields[2:]})
		}
	}
	for name, all := range lines {
		for _, line := range all {
			for _, word := range line.codes {
				for i, code := range expand(word, groups, all) {
					if byName[code] == nil {
						return nil, fmt.Errorf("phase %q: code %q is not one of the matrix", name, code)
					}
					matrix[name] = append(matrix[name], cell{byName[code], line.once, line.often, i == 0})
				}
			}
		}
	}
	return matrix, nil
}

// matrixLine is a line of a part, with its codes and groups of codes.
type matrixLine struct {
	once, often expectation
	codes       []string
}

// expand answers the codes of a group, without those that a line of the part names by itself.
func expand(word string, groups map[string][]string, part []matrixLine) []string {
	if groups[word] == nil {
		return []string{word}
	}
	return slices.DeleteFunc(slices.Clone(groups[word]), func(code string) bool {
		return slices.ContainsFunc(part, func(l matrixLine) bool { return slices.Contains(l.codes, code) })
	})
}

func readMatrix(t *testing.T) map[string][]cell {
	t.Helper()
	matrix, err := parseMatrix(matrixText)
	if err != nil {
		t.Fatal(err)
	}
	return matrix
}

// incomplete answers what is missing in a matrix, or there twice: each phase has each code once.
func incomplete(matrix map[string][]cell) (faults []string) {
	for _, p := range phases {
		times := map[*kerr.Error]int{}
		for _, c := range matrix[p.name] {
			times[c.code]++
		}
		for _, code := range matrixCodes {
			if times[code] != 1 {
				faults = append(faults, fmt.Sprintf("%s × %s: %d rows", p.name, code.Message, times[code]))
			}
		}
	}
	for name := range matrix {
		if !slices.ContainsFunc(phases, func(p phase) bool { return p.name == name }) {
			faults = append(faults, fmt.Sprintf("no phase %q", name))
		}
	}
	return faults
}

// TestMatrixIsComplete: each phase × each code has a row, and a row that is missing is noticed.
func TestMatrixIsComplete(t *testing.T) {
	t.Parallel()
	matrix := readMatrix(t)
	for _, fault := range incomplete(matrix) {
		t.Error(fault)
	}
	if len(matrixCodes) < 65 || len(phases) < 20 {
		t.Errorf("%d codes and %d phases", len(matrixCodes), len(phases))
	}
	first := phases[0].name
	for what, change := range map[string]func(m map[string][]cell){
		"missing":       func(m map[string][]cell) { m[first] = m[first][1:] },
		"twice":         func(m map[string][]cell) { m[first] = append(m[first], m[first][0]) },
		"no phase":      func(m map[string][]cell) { delete(m, first) },
		"unknown phase": func(m map[string][]cell) { m["none"] = m[first] },
	} {
		broken := readMatrix(t)
		change(broken)
		if len(incomplete(broken)) == 0 {
			t.Errorf("%s: not noticed", what)
		}
	}
	for _, text := range []string{"[a]\nR R", "[a]\nR R @none", "[a]\nR R NO_SUCH_CODE", "[a]\nR R NOT_COORDINATOR\n[a]\nR R NOT_COORDINATOR"} {
		if _, err := parseMatrix(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// class is the action that follows from the class of an error, once nobody tries again.
func (p *phase) class(code *kerr.Error) string {
	if p.lost {
		if txn.Denied(code) && txn.AdmissionOf(code) == txn.Admitted {
			return fmt.Sprint(txn.StatusDenied)
		}
		return "A"
	}
	err := txn.Classify(p.call, code)
	var fatal *txn.FatalError
	switch {
	case errors.As(err, &fatal):
		return fmt.Sprint(fatal.Status)
	case errors.Is(err, txn.ErrInDoubt):
		return "X"
	default:
		return "A"
	}
}

// contradiction compares an expectation with the error table of txn.
func (p *phase) contradiction(code *kerr.Error, e expectation) string {
	class := p.class(code)
	fits := e.action == class || e.action == "-" || e.action == "R" && (kerr.IsRetriable(code) || errors.Is(code, kerr.ConcurrentTransactions))
	switch {
	case fits && e.odd:
		return fmt.Sprintf("%s × %s: %s follows from the class, it needs no mark", p.name, code.Message, e.action)
	case !fits && !e.odd:
		return fmt.Sprintf("%s × %s: %s, but its class says %s", p.name, code.Message, e.action, class)
	default:
		return ""
	}
}

// TestMatrixFollowsFromClasses: an expectation is the class of the error, or the client tries again because the code
// says that it may. What is neither is marked, so that a change of either table shows in the other.
func TestMatrixFollowsFromClasses(t *testing.T) {
	t.Parallel()
	matrix := readMatrix(t)
	for i := range phases {
		for _, c := range matrix[phases[i].name] {
			for _, e := range []expectation{c.once, c.often} {
				if fault := phases[i].contradiction(c.code, e); fault != "" {
					t.Error(fault)
				}
			}
		}
	}
	end := &phase{name: "end", call: txn.CallEnd}
	for text, bad := range map[string]bool{"X": false, "A": true, "A!": false, "X!": true, "R": true, "77": true} {
		if got := end.contradiction(kerr.ProducerFenced, expected(text)) != ""; got != bad {
			t.Errorf("%s: contradiction %v", text, got)
		}
	}
}

// TestMatrix tries each code in each phase, once and repeatedly: the action is the expected one, and the output exact.
// kfake answers in place of a broker. Without -long, repeatedly is tried with the first code of each group only, which
// stands for the others.
func TestMatrix(t *testing.T) {
	matrix := readMatrix(t)
	for i := range phases {
		p := &phases[i]
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			rows := int64(0)
			t.Run("rows", func(t *testing.T) {
				for chunk := range slices.Chunk(underRace(matrix[p.name]), 12) {
					rows += p.try(t, chunk)
				}
			})
			proof.Record(t, proof.Result{Broker: proof.Fake, Rows: rows})
		})
	}
}

// underRace leaves of a phase every third of the codes that are the first of their group: all of them take the same ways
// between the goroutines. It leaves them together, for each chunk has a world of its own.
func underRace(cells []cell) (kept []cell) {
	if !raced || *long {
		return cells
	}
	place := 0
	for _, c := range cells {
		if c.first {
			if place%3 == 0 {
				kept = append(kept, c)
			}
			place++
		}
	}
	return kept
}

// try runs some rows in one bubble, and answers how many.
func (p *phase) try(t *testing.T, cells []cell) (rows int64) {
	type row struct {
		cell
		often bool
		want  expectation
	}
	var all []row
	for _, c := range cells {
		if c.once.action != "-" {
			all = append(all, row{c, false, c.once})
		}
		if c.often.action != "-" && (*long || c.first && !raced) {
			all = append(all, row{c, true, c.often})
		}
	}
	if len(all) == 0 {
		return 0
	}
	t.Run(cells[0].code.Message, func(t *testing.T) {
		inTrial(t, p, func(t *testing.T, tr *trial) {
			for _, r := range all {
				got := tr.row(r.code, r.often)
				for _, fault := range got.judge(r.want.action) {
					t.Errorf("%s × %s, often %v: %s", p.name, r.code.Message, r.often, fault)
				}
				if t.Failed() {
					return // what follows in this world means nothing
				}
			}
		})
	})
	return int64(len(all))
}

// TestMetadataAnswerIsKept: the client answers a look at a topic from the one before for 250 ms, errors included. A
// session that took the first answer for the last failed, and so did those that followed within that time.
func TestMetadataAnswerIsKept(t *testing.T) {
	inTrial(t, &phases[3], func(t *testing.T, tr *trial) {
		tr.b.stopped()
		h := tr.Fault(tr.phase.fault(kerr.UnknownServerError, 1))
		began := time.Now()
		tr.feed(kept)
		tr.up()
		if h.Hits() != 1 || tr.b.restarts() != 0 || time.Since(began) < 250*time.Millisecond {
			t.Errorf("%d hits, %d restarts after %s", h.Hits(), tr.b.restarts(), time.Since(began))
		}
	})
}
