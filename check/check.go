package check

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Run looks and judges. It ends within Options.Timeout and changes nothing. The error is one of the client's options; what
// a cluster refuses or does not answer is a finding.
func Run(ctx context.Context, o Options) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("no answer within %s", o.Timeout))
	defer cancel()
	s := &Snapshot{Options: o, Now: time.Now(), Topics: map[string]Topic{}}
	if !o.Unusable {
		if err := s.gather(ctx); err != nil {
			return nil, err
		}
	}
	return judge(s), nil
}

// gather fills the snapshot.
func (s *Snapshot) gather(ctx context.Context) error {
	if err := s.contact(ctx); err != nil {
		return err
	}
	if !s.Reached {
		return nil
	}
	cl, err := kgo.NewClient(append(s.Client[:len(s.Client):len(s.Client)], patience(s.Timeout)...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	newGathering(s, cl).all(ctx)
	return nil
}

// patience bounds what the client does by itself: an answer late is as good as none here.
func patience(timeout time.Duration) []kgo.Opt {
	return []kgo.Opt{kgo.RetryTimeout(timeout / 3), kgo.RequestTimeoutOverhead(timeout / 3)}
}
