package main

import "time"

// sizes are how much is measured. Inputs are chosen so that a run lasts as long as its box at the rates of a machine
// of two cores, and so that input and output together stay in the page cache of 24 GiB.
type sizes struct {
	rounds, fewRounds int           // of comparisons, of curves
	w1, w2            int64         // records of 1,024 and of 100 bytes
	box, settle       time.Duration // of main
	warm              int64         // records that the broker's compiler sees first

	shortBox, peerBox time.Duration // of curves; of peers
	feedTime          time.Duration
	peerFeedTime      time.Duration
	feedSettle        time.Duration
	feedWarm          time.Duration // of commits that the broker's compiler sees first
	idleTime          time.Duration
	starts            int
	kills, peerKills  int
	leastLife         time.Duration // of what is killed, after its first output
	mostLife          time.Duration
	limits            int   // of memory
	everyPoint        int   // of the curves of scale, one in so many
	curve             int64 // records of 100 bytes of a point of a curve
	curveBytes        int64 // bytes of its larger records
	manyPartitions    int
}

// presets are the values of -size.
var presets = map[string]sizes{
	"full": {
		rounds: 5, fewRounds: 3, w1: 8_800_000, w2: 37_000_000, box: 22 * time.Second, settle: 500 * time.Millisecond, warm: 8_000_000,
		shortBox: 4 * time.Second, peerBox: 5 * time.Second,
		feedTime: 10 * time.Second, peerFeedTime: 8 * time.Second, feedSettle: 3 * time.Second, feedWarm: 90 * time.Second,
		idleTime: 20 * time.Second, starts: 10, kills: 50, peerKills: 5, leastLife: 150 * time.Millisecond, mostLife: 2 * time.Second, limits: 3, everyPoint: 1,
		curve: 9_000_000, curveBytes: 2 << 30, manyPartitions: 1000,
	},
	"quick": {
		rounds: 2, fewRounds: 2, w1: 1_000_000, w2: 4_000_000, box: 4 * time.Second, settle: 300 * time.Millisecond, warm: 500_000,
		shortBox: 2 * time.Second, peerBox: 3 * time.Second,
		feedTime: 3 * time.Second, peerFeedTime: 3 * time.Second, feedSettle: time.Second, feedWarm: 10 * time.Second,
		idleTime: 5 * time.Second, starts: 3, kills: 5, peerKills: 1, leastLife: 150 * time.Millisecond, mostLife: 2 * time.Second, limits: 3, everyPoint: 1,
		curve: 2_000_000, curveBytes: 256 << 20, manyPartitions: 1000,
	},
	"tiny": {
		rounds: 1, fewRounds: 1, w1: 40_000, w2: 80_000, box: 300 * time.Millisecond, settle: 0, warm: 0,
		shortBox: 200 * time.Millisecond, peerBox: 200 * time.Millisecond,
		feedTime: time.Second, peerFeedTime: time.Second, feedSettle: 50 * time.Millisecond,
		idleTime: 200 * time.Millisecond, starts: 1, kills: 1, peerKills: 1, leastLife: 50 * time.Millisecond, mostLife: 100 * time.Millisecond, limits: 1, everyPoint: 3,
		curve: 40_000, curveBytes: 8 << 20, manyPartitions: 40,
	},
}

// Costs of a run beside its measured time, for estimates: start, stop, topics; and what the broker, the loader and the
// reader get through in a second.
const (
	aroundRun   = 1500 * time.Millisecond
	aroundPart  = 25 * time.Second
	readBack    = 3_000_000       // records of 100 bytes
	readBackBig = 1_100_000       // of 1,024
	loadRate    = 1_000_000       // of 100 bytes
	loadRateBig = 450_000         // of 1,024
	slowExtra   = 8 * time.Second // of a virtual machine: start, compilation
)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// copyTime is how long a run over a box takes at a rate, the verification included.
func copyTime(box, settle time.Duration, rate, back float64) time.Duration {
	return aroundRun + box + settle + seconds((box+settle).Seconds()*rate/back)
}
