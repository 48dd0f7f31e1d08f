package model

import (
	"maps"
	"slices"
	"strings"
)

// Run is one exploration: constants, guards that are taken away, and what must come out.
type Run struct {
	Name string
	Says string // for people: what is explored, or what goes wrong
	// With sets constants of Ring.tla that differ from the usual ones.
	With map[string]string
	// Without are the guards that are taken away.
	Without []string
	// Want is the invariant that must be violated; empty: every state is explored and none is.
	Want string
	Live bool // also: everything is delivered in the end
	Full bool // too long for -quick
}

// Mutation reports whether the run shows that guards are needed.
func (r Run) Mutation() bool { return r.Want != "" }

// usual are the constants: one instance, three records, two faults.
var usual = map[string]string{
	"Inst": "{1}", "Src": "{1}", "Out": `{"x"}`, "N": "3", "Mute": "{}", "Version": "2",
	"Faults": "2", "Kicks": "0", "Moves": "0", "News": "0", "Copies": `{"offsets", "end"}`,
	"Wide": "FALSE", "KeepId": "FALSE", "OneName": "FALSE", "Start": "FALSE",
}

// with reads settings such as "N=2 Faults=1".
func with(settings string) map[string]string {
	set := map[string]string{}
	for _, field := range strings.Fields(settings) {
		name, value, _ := strings.Cut(field, "=")
		set[name] = value
	}
	return set
}

// Constants are all constants of the run but Mut.
func (r Run) Constants() map[string]string {
	all := maps.Clone(usual)
	maps.Copy(all, r.With)
	return all
}

// Settings lists what differs from the usual constants.
func (r Run) Settings() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.With)) {
		all = append(all, name+" "+r.With[name])
	}
	return strings.Join(all, ", ")
}

const (
	two      = "Inst={1,2} "
	twoParts = "Inst={1,2} Src={1,2} "
)

// holds is the protocol as it is coded: no state may violate anything, and none may be a dead end.
var holds = []Run{
	{Name: "one", Says: "one instance", With: with("")},
	{Name: "one, two outputs", Says: "three faults, outputs in two partitions", With: with(`Faults=3 Out={"x","y"}`), Full: true},
	{Name: "one, four records", Says: "both slots in turn, twice", With: with("N=4 Faults=3")},
	{Name: "delivered", Says: "under fairness everything is delivered", With: with("N=2 Faults=1"), Live: true},
	{Name: "version 1", Says: "below transaction.version 2, with renewal", With: with("Version=1 Faults=3")},
	{Name: "carried", Says: "records without output: carried, settled", With: with("N=4 Mute={1,3}")},
	{Name: "carried in a row", Says: "two epochs without output", With: with("N=4 Mute={2,3}")},
	{Name: "removed", Says: "a removed member that goes on, a bystander's rebalance: the exception of invariant 6", With: with("N=2 Faults=1 Kicks=1 News=1 KeepId=TRUE")},
	{Name: "two", Says: "two instances, one fault, one move", With: with(two + "N=2 Faults=1 Moves=1")},
	{Name: "take-over", Says: "two instances, one is removed, one fault", With: with(two + "N=2 Faults=1 Kicks=1"), Full: true},
	{Name: "exception", Says: "a removal, a move and a bystander, same member id", With: with(two + "N=2 Faults=0 Kicks=1 Moves=1 News=1 KeepId=TRUE"), Full: true},
	{Name: "exception, carried", Says: "the same for plain commits", With: with(two + "N=2 Mute={1} Faults=0 Kicks=1 Moves=1 News=1 KeepId=TRUE"), Full: true},
	{Name: "swap", Says: "two input partitions change hands, epochs of both", With: with(twoParts + "N=1 Faults=0 Moves=2 Wide=TRUE"), Full: true},
	{Name: "swap, carried", Says: "the same with records that have no output", With: with(twoParts + "N=2 Mute={1} Faults=0 Moves=1"), Full: true},
	{Name: "one name", Says: "two processes with one name, neither gives up", With: with(two + "N=1 Faults=1 OneName=TRUE"), Full: true},
	{Name: "start", Says: "two members begin where the group has no positions", With: with(twoParts + "N=1 Faults=1 Start=TRUE")},
	{Name: "start, moves", Says: "the same with a move", With: with(twoParts + "N=1 Faults=0 Moves=1 Start=TRUE")},
}

// fails are the guards of the protocol, taken away one by one, or two that stand for each other.
var fails = []Run{
	{
		Name: "begin before flush", Without: []string{"begin after flush"}, Want: "Order", With: with(`Out={"x","y"} Faults=0`),
		Says: "epoch 2 is in an output partition before epoch 1; both commit",
	},
	{
		Name: "commit out of order", Without: []string{"commit in order"}, Want: "NoAhead", With: with("Faults=0"),
		Says: "the positions of 2, then those of 1: the later record wins",
	},
	{
		Name: "offsets before the last end", Without: []string{"offsets after the last end"}, Want: "NoAhead", With: with("Faults=1"),
		Says: "a late copy of TxnOffsetCommit(1) arrives after TxnOffsetCommit(2)",
	},
	{
		Name: "end after an unknown end", Without: []string{"unknown ends all"}, Want: "NoLoss", With: with("Faults=1"),
		Says: "EndTxn(1) is lost, EndTxn(2) commits: the positions skip epoch 1",
	},
	{
		Name: "promise failed", Without: []string{"every promise succeeded"}, Want: "NoLoss", With: with("Faults=1"),
		Says: "a refused record; its epoch commits all the same",
	},
	{
		Name: "offsets failed", Without: []string{"offsets succeeded"}, Want: "NoAhead", With: with("Faults=1"),
		Says: "TxnOffsetCommit is lost, EndTxn commits: outputs without positions",
	},
	{
		Name: "commit before flush", Without: []string{"commit after flush"}, Want: "NoLoss", With: with("Faults=0"),
		Says: "positions of an epoch whose records are not acknowledged",
	},
	{
		Name: "positions from memory", Without: []string{"positions from the broker"}, Want: "NoDup", With: with("Faults=1"),
		Says: "EndTxn was done, its answer lost; reading goes on where the epoch began",
	},
	{
		Name: "unstable positions", Without: []string{"stable positions"}, Want: "NoDup", With: with(two + "N=1 Faults=0 Moves=1"),
		Says: "EndTxn is answered, its markers are not written; the next owner reads the old position",
	},
	{
		Name: "removed, unstable positions", Without: []string{"stable positions"}, Want: "NoDup", With: with("N=2 Faults=0 Kicks=1"),
		Says: "the same on one member that was removed and comes back by itself",
	},
	{
		Name: "late credential", Without: []string{"credential of the barrier"}, Want: "NoDup", With: with("N=1 Faults=0 Kicks=1"),
		Says: "removed, back by itself; the old epoch's positions go out under the new generation",
	},
	{
		Name: "exception although lost", Without: []string{"no lost since the barrier"}, Want: "NoDup", With: with("N=1 Faults=0 Kicks=1 KeepId=TRUE"),
		Says: "removed, back under the same id; the refused positions are repeated with the new generation",
	},
	{
		Name: "pair read after the test", Without: []string{"pair read before the test"}, Want: "NoDup", With: with("N=1 Faults=0 Kicks=1 News=1 KeepId=TRUE"),
		Says: "the test passes, then removed and back; the pair of that moment is sent",
	},
	{
		Name: "revoked, epoch kept", Without: []string{"no revoked since the barrier", "drain"}, Want: "NoDup", With: with(two + "N=1 Faults=0 Moves=1 News=1 KeepId=TRUE"),
		Says: "a partition goes without a drain; the old owner repeats its positions with the new generation",
	},
	{
		Name: "no drain, late credential", Without: []string{"drain", "credential of the barrier"}, Want: "NoDup", With: with(two + "N=1 Faults=0 Moves=1"),
		Says: "a partition goes without a drain; the old owner commits as the member it is now",
	},
	{
		Name: "carried survives a revocation", Without: []string{"forget"}, Want: "NoAhead", With: with(twoParts + "N=2 Mute={1} Faults=0 Moves=1"),
		Says: "positions of a partition that has gone ride with the next epoch, after its new owner's",
	},
	{
		Name: "unclear plain commit, same member", Without: []string{"new member after an unclear plain commit"}, Want: "NoAhead", With: with("N=3 Mute={1} Faults=1"),
		Says: "the plain commit arrives after later positions: no fence stops it",
	},
	{
		Name: "plain commit past an open epoch", Without: []string{"carry in order"}, Want: "NoLoss", With: with("N=2 Mute={2} Faults=0"),
		Says: "epoch 2 has no output and is settled while epoch 1 is open",
	},
	{
		Name: "plain commit sent again", With: with(`N=2 Mute={1} Faults=1 Copies={"plain"}`), Want: "NoAhead",
		Says: "a copy of an answered plain commit arrives after later positions",
	},
	{
		Name: "carried twice", Without: []string{"carried goes once"}, Want: "NoAhead", With: with("N=2 Mute={1} Faults=0"),
		Says: "what a transaction has taken along is settled once more",
	},
	{
		Name: "settle beside a commit", Without: []string{"carried goes with the commit", "settle between commits"}, Want: "NoAhead", With: with("N=2 Mute={1} Faults=0"),
		Says: "carried positions are settled after the TxnOffsetCommit that took them along",
	},
	{
		Name: "version 1, end arrives late", Without: []string{"renewal"}, Want: "NoAhead", With: with(`Version=1 Faults=1 Copies={"end"}`),
		Says: "a copy of EndTxn(1) commits the records of epoch 3, of the same producer epoch",
	},
	{
		Name: "version 1, offsets arrive late", Without: []string{"renewal"}, Want: "NoAhead", With: with(`Version=1 Faults=1 Copies={"offsets"}`),
		Says: "a copy of TxnOffsetCommit(1) arrives in the transaction of epoch 3",
	},
	{
		Name: "no fence, unstable positions", Without: []string{"fence", "stable positions"}, Want: "NoDup", With: with("N=2 Faults=1"),
		Says: "EndTxn is under way or decided while the restart reads the old position",
	},
	{
		Name: "half a fence, unstable positions", Without: []string{"fence both", "stable positions"}, Want: "NoDup", With: with("N=2 Faults=1"),
		Says: "the same on the slot that was not fenced",
	},
	{
		Name: "start of all partitions", Without: []string{"start of our own"}, Want: "NoAhead", With: with(twoParts + "N=1 Faults=0 Start=TRUE"),
		Says: "a late start commit takes back what another member has committed",
	},
}

// alone are guards that others stand for: without one of them nothing fails. That is why fails takes them in pairs.
var alone = []Run{
	{Name: "no fence", Says: "the stable fetch waits", Without: []string{"fence"}, With: with("N=2 Faults=1")},
	{Name: "half a fence", Says: "the stable fetch waits", Without: []string{"fence both"}, With: with("N=2 Faults=1")},
	{Name: "unstable positions, one instance", Says: "the fence waits", Without: []string{"stable positions"}, With: with("N=2 Faults=1")},
	{Name: "no drain", Says: "the captured generation is refused", Without: []string{"drain"}, With: with(two + "N=1 Faults=0 Moves=1 News=1 KeepId=TRUE")},
	{Name: "revoked does not count", Says: "the drain leaves nothing to repeat", Without: []string{"no revoked since the barrier"}, With: with(two + "N=1 Faults=0 Moves=1 News=1 KeepId=TRUE")},
	{Name: "late credential, no removal", Says: "the drain leaves nothing to commit late", Without: []string{"credential of the barrier"}, With: with(two + "N=1 Faults=0 Moves=1")},
	{Name: "lost does not count, new id", Says: "a new member id is enough", Without: []string{"no lost since the barrier"}, With: with("N=1 Faults=0 Kicks=1")},
	{Name: "settle at any time", Says: "the commit has taken what was carried", Without: []string{"settle between commits"}, With: with("N=2 Mute={1} Faults=1")},
	{Name: "carried until the end", Says: "nothing is settled beside a commit", Without: []string{"carried goes with the commit"}, With: with("N=2 Mute={1} Faults=1")},
	{Name: "carried survives, one partition", Says: "its generation is refused", Without: []string{"forget"}, With: with(two + "N=2 Mute={1} Faults=0 Moves=1")},
}

// Runs are all explorations.
func Runs() []Run { return slices.Concat(holds, alone, fails) }
