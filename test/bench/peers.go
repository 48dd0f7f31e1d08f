package main

import (
	"context"
	"errors"
	"time"

	"github.com/eosbridge/eosbridge/test/bench/copies"
	"github.com/eosbridge/eosbridge/test/bench/measure"
	"github.com/eosbridge/eosbridge/test/bench/peers"
)

// runPeers measures everything against the programs of others. The inputs are those that the quickest uses up in its
// box; a slow one does not get far in them.
func runPeers(ctx context.Context, b *board) error {
	names := append([]string{nameBridge, copies.Session}, peers.Names()...)
	variants := b.variants(names...)
	if len(variants) == 0 {
		return errors.New("nothing to measure")
	}
	if err := b.warm(ctx, sizeW1, variants); err != nil {
		return err
	}
	longest := (b.size.peerBox + b.size.settle).Seconds() * 1.3
	err := b.loaded(ctx, sizeW1, measure.Evenly(b.most(longest*550_000), partitions), "none", func(in measure.Input) []measure.Copy {
		return boxed(workW1, in, "none", b.size.settle, b.size.peerBox, variants)
	})
	if err != nil {
		return err
	}
	err = b.loaded(ctx, sizeW2, measure.Evenly(b.most(longest*2_200_000), partitions), "none", func(in measure.Input) []measure.Copy {
		return boxed(workW2, in, "none", b.size.settle, b.size.peerBox, variants)
	})
	if err != nil {
		return err
	}
	if err := b.feeds(ctx, b.fed(workFeed, 0, b.size.peerFeedTime, variants)); err != nil {
		return err
	}
	if err := b.idles(ctx, b.size.fewRounds, variants); err != nil {
		return err
	}
	for _, v := range variants {
		if err := b.kill(ctx, v, b.size.peerKills); err != nil {
			return err
		}
	}
	return nil
}

func estimatePeers(s sizes) time.Duration {
	quick, slow := time.Duration(3*s.rounds), time.Duration(2*s.rounds)
	w1 := copyTime(s.peerBox, s.settle, 430_000, readBackBig)
	w2 := copyTime(s.peerBox, s.settle, 1_700_000, readBack)
	fed := aroundRun + s.feedSettle + s.peerFeedTime
	copied := quick*(w1+w2+fed) + slow*(3*(slowExtra+aroundRun)+2*s.peerBox+s.peerFeedTime)
	idle := time.Duration(s.fewRounds) * (s.idleTime + s.feedSettle + 10*time.Second)
	return aroundPart + seconds(20) + copied + idle + time.Duration(s.peerKills)*35*time.Second
}
