package cli

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// demoKillPeriod is the time from one kill to the next, on average.
const demoKillPeriod = 1100 * time.Millisecond

// demoMaxRate is the most records the demo feeds per second: what one embedded
// broker and one bridge carry on two cores with time to spare for restarts.
const demoMaxRate = 20000

// plannedKill is how long a bridge may live: life after its start and, if
// afterCommit, then until its next committed epoch and a moment more.
type plannedKill struct {
	life        time.Duration
	afterCommit bool
	moment      time.Duration
}

// demoPlan is the whole run, fixed before it begins.
type demoPlan struct {
	perPartition []int64 // records for each input partition
	duration     time.Duration
	kills        []plannedKill
}

// planDemo spreads the records and the kills over the run. Half of the kills
// hit a bridge that is still starting, joining or at its first epochs, half one
// that is under way, at a random moment of the epoch after a commit; the seed
// decides which and when.
func planDemo(records int64, kills int, seed uint64) demoPlan {
	p := demoPlan{perPartition: make([]int64, demoPartitions)}
	for i := range p.perPartition {
		p.perPartition[i] = (records + int64(demoPartitions-1-i)) / demoPartitions
	}
	p.duration = max(
		time.Duration(kills)*demoKillPeriod,
		time.Duration(float64(records)/demoMaxRate*float64(time.Second)),
		3*time.Second,
	)
	if kills == 0 {
		return p
	}
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	// All lives but the last share the run; the early kills are quicker than
	// the average, the others make up for it.
	late := (kills + 1) / 2
	lives := p.duration * time.Duration(kills) / time.Duration(kills+1)
	rest := (lives - time.Duration(kills-late)*demoEarlyMean) / time.Duration(late)
	for i := range kills {
		kill := plannedKill{afterCommit: i%2 == 0}
		if kill.afterCommit {
			kill.life = between(rest*6/10, rest*14/10)
			kill.moment = between(0, 100*time.Millisecond)
		} else {
			kill.life = earlyKill(random)
		}
		p.kills = append(p.kills, kill)
	}
	// Within its pair only: early kills in a row would run ahead of the records.
	for pair := range slices.Chunk(p.kills, 2) {
		random.Shuffle(len(pair), func(i, j int) { pair[i], pair[j] = pair[j], pair[i] })
	}
	return p
}

// An early kill comes between demoEarliest and demoEarliest*demoEarlySpan after
// the start; demoEarlyMean is the mean of that distribution.
const (
	demoEarliest  = 10 * time.Millisecond
	demoEarlySpan = 90
	demoEarlyMean = 198 * time.Millisecond
)

// earlyKill draws from a log-uniform distribution: a bridge is through its
// start-up within tens of milliseconds on a broker nearby and within a second
// on one far away, and each step of it shall have its share of the kills.
func earlyKill(random *rand.Rand) time.Duration {
	return time.Duration(float64(demoEarliest) * math.Pow(demoEarlySpan, random.Float64()))
}

// due is how many records a feeder at the plan's pace sends in step. While the
// kills lag behind the records it slows down, so that the last kills still meet
// traffic: sent of all records are on their way, killed of all
// kills are done.
func (p demoPlan) due(step time.Duration, sent int64, killed int) float64 {
	var total int64
	for _, n := range p.perPartition {
		total += n
	}
	due := float64(total) * float64(step) / float64(p.duration)
	if kills := len(p.kills); float64(sent)/float64(total) > float64(killed+3)/float64(kills+3) {
		return due / 3
	}
	return due
}
