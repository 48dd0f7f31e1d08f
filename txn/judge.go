package txn

import (
	"fmt"
	"time"
)

// Kind is what a transaction is to the operator of a pipeline.
type Kind string

// The kinds of transactions.
const (
	KindIdle    Kind = "idle"    // an id of ours under which nothing is open
	KindLive    Kind = "live"    // ours, and a member of the group carries its instance id
	KindDead    Kind = "dead"    // ours, nobody carries its instance id, and older than a live owner lets it become
	KindEnding  Kind = "ending"  // the coordinator has decided on its end and writes the markers
	KindForeign Kind = "foreign" // of another prefix: whether its owner lives cannot be known
	KindHanging Kind = "hanging" // open in a partition and unknown to every coordinator: no timeout ends it
	KindUnknown Kind = "unknown" // what would decide is not visible, or not certain yet
)

// ownerGone reports whether nobody in the group carries the instance id. It is one half of what makes a transaction of
// ours abandoned, for Sweep and for Inspect; oldEnough is the other.
func ownerGone(instance string, alive map[string]Member) bool {
	_, lives := alive[instance]
	return !lives
}

// ageOf is how long a transaction has been open by our clock; negative if its start is unknown.
func ageOf(start int64, now time.Time) time.Duration {
	if start <= 0 {
		return -1
	}
	return max(0, now.Sub(time.UnixMilli(start)))
}

// oldEnough reports whether a transaction is older than a live owner lets it become. A younger one may be of an owner
// that has fenced its ids and not joined the group yet.
func oldEnough(age, olderThan time.Duration) bool { return age >= 0 && age >= olderThan }

// sight is all that a judgement of a transaction with a transactional id rests on.
type sight struct {
	state     string        // as the coordinator calls it
	ours      bool          // the id has our prefix
	instance  string        // of an id of ours
	group     string        // where its owner would be a member
	owner     *Member       // nil: nobody carries the instance id
	blind     error         // why the members are not known
	age       time.Duration // negative: unknown
	olderThan time.Duration
}

// judgement says what a transaction is, whether aborting it harms nobody, and why.
type judgement struct {
	kind    Kind
	safe    bool
	because string
}

// judge decides about a transaction that its coordinator knows.
func (s sight) judge() judgement {
	switch s.state {
	case stateOngoing:
	case statePrepareAbort, statePrepareEpochFence, statePrepareCommit:
		return judgement{KindEnding, false, "its end is decided (" + s.state + ") and only the markers are missing: nothing is left to abort"}
	default:
		kind := KindIdle
		if !s.ours {
			kind = KindForeign
		}
		return judgement{kind, false, "nothing is open under it"}
	}
	switch {
	case !s.ours:
		return judgement{KindForeign, false, "its id does not have our prefix, so whether its owner is alive is not for us to know"}
	case s.blind != nil:
		return judgement{KindUnknown, false, fmt.Sprintf("whether its owner is alive is not known: %v", s.blind)}
	case s.owner != nil:
		return judgement{KindLive, false, fmt.Sprintf("%s is in the group %s, as a crashed one is until its session timeout", s.instance, s.group)}
	case !oldEnough(s.age, s.olderThan):
		return judgement{KindUnknown, false, fmt.Sprintf("nobody in the group %s is called %s, but an owner that has just started is not a member yet: look again when it is %s old",
			s.group, s.instance, s.olderThan)}
	default:
		return judgement{KindDead, true, fmt.Sprintf("nobody in the group %s is called %s, and an owner that had begun it would have joined within %s",
			s.group, s.instance, s.olderThan)}
	}
}

// stray is all that a judgement of a transaction rests on that is open in a partition, and that the coordinator of its
// producer does not list.
type stray struct {
	name     string        // the producer's transactional id; empty if none is known
	state    string        // of that id
	complete bool          // every transactional id of the cluster could be seen
	quiet    time.Duration // since the last record, by our clock
	limit    time.Duration // the longest timeout that a transaction may have
	still    bool          // a second look found the same transaction open
}

// judge decides as Kafka's own tool does (kafka-transactions.sh find-hanging, KIP-664): a transaction hangs if its last
// record is older than the longest timeout, and its producer has no transactional id, or has one whose coordinator does
// not list the partition. What the tool does not do: it takes an id that it may not see for none.
//
// Another producer epoch is no proof by itself: while the coordinator lists the partition, its marker ends what is open
// there under any earlier epoch.
func (s stray) judge() judgement {
	unlisted := "no transactional id has its producer id"
	if s.name != "" {
		unlisted = fmt.Sprintf("the coordinator of %s (%s) does not list this partition", s.name, s.state)
	}
	switch {
	case !s.still:
		return judgement{KindEnding, false, "it ended while we looked"}
	case s.name == "" && !s.complete:
		return judgement{KindUnknown, false, "no transactional id that we may see has its producer id, and we may not see all"}
	case s.quiet <= s.limit:
		return judgement{KindUnknown, false, fmt.Sprintf("%s, but its last record is younger than the longest timeout of a transaction: look again when it is older than %s", unlisted, s.limit)}
	default:
		return judgement{KindHanging, true, unlisted + ", and its last record is older than the longest timeout of a transaction (" + s.limit.String() + ")"}
	}
}
