package cli

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPlanDemo(t *testing.T) {
	for _, tt := range []struct {
		records int64
		kills   int
		least   time.Duration
	}{
		{40000, 14, 15400 * time.Millisecond},
		{1, 0, 3 * time.Second},
		{7, 1, 3 * time.Second},
		{1_000_000, 10, 50 * time.Second},
	} {
		for seed := range uint64(20) {
			p := planDemo(tt.records, tt.kills, seed)
			var sum int64
			for i, n := range p.perPartition {
				if n < 0 || i > 0 && n > p.perPartition[i-1] {
					t.Fatalf("uneven partitions %v", p.perPartition)
				}
				sum += n
			}
			if sum != tt.records || p.duration != tt.least || len(p.kills) != tt.kills {
				t.Fatalf("%+v: %d records, %v, %d kills", tt, sum, p.duration, len(p.kills))
			}
			var planned time.Duration
			var afterCommit int
			for _, k := range p.kills {
				planned += k.life + k.moment
				if k.afterCommit {
					afterCommit++
				} else if k.life < 10*time.Millisecond || k.life > 900*time.Millisecond {
					t.Errorf("early kill after %v", k.life)
				}
			}
			if afterCommit != (tt.kills+1)/2 {
				t.Errorf("%d of %d kills after a commit", afterCommit, tt.kills)
			}
			if tt.kills > 0 && (planned < tt.least*3/10 || planned > tt.least*12/10) {
				t.Errorf("seed %d: %d kills take %v of %v", seed, tt.kills, planned, tt.least)
			}
		}
	}
}

func TestPlanDemoSeed(t *testing.T) {
	a, b, c := planDemo(1000, 10, 1), planDemo(1000, 10, 1), planDemo(1000, 10, 2)
	if !slices.Equal(a.kills, b.kills) {
		t.Error("one seed, two plans")
	}
	if slices.Equal(a.kills, c.kills) {
		t.Error("two seeds, one plan")
	}
}

func TestPlanDue(t *testing.T) {
	p := planDemo(40000, 14, 1)
	second := p.due(time.Second, 0, 0)
	if second < 2500 || second > 2700 {
		t.Errorf("%v records in the first second", second)
	}
	if got := p.due(time.Second, 20000, 6); got != second {
		t.Errorf("slowed to %v though the kills keep up", got)
	}
	if got := p.due(time.Second, 30000, 6); got != second/3 {
		t.Errorf("%v with the kills far behind, want %v", got, second/3)
	}
	if got := p.due(time.Second, 39999, 14); got != second {
		t.Errorf("slowed to %v after the last kill", got)
	}
	if got := planDemo(3000, 0, 1).due(time.Second, 2999, 0); got != 1000 {
		t.Errorf("%v a second without kills, want 1000", got)
	}
}

func TestEarlyKillMean(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sum time.Duration
	const draws = 100_000
	for range draws {
		sum += earlyKill(random)
	}
	if mean := sum / draws; mean < demoEarlyMean*98/100 || mean > demoEarlyMean*102/100 {
		t.Errorf("mean %v, want about %v", mean, demoEarlyMean)
	}
}
