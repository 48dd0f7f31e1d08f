package transform

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

func init() {
	Register(Definition{
		Name:  "sample",
		Usage: "sample(fraction) or sample(percent%)",
		Doc: "Keeps a share of the records, chosen by a hash of the key. All records of a key are kept or all are dropped, on every run and every instance, " +
			"and a larger share keeps all that a smaller one does; records with a null key are chosen by topic, partition and offset. " +
			"The argument is a fraction such as 0.25 or a percentage such as 25%: sample(1) keeps all, sample(1%) one in a hundred.",
		Example: "sample(50%)",
		New:     newSample,
	})
}

// hashBits is the resolution of the share: what a float64 holds exactly.
const hashBits = 53

// sample keeps the records whose hash, read as a fraction of its range, is below the share.
type sample struct{ below uint64 }

func newSample(arg string) (Transform, error) {
	if arg == "" {
		return nil, errors.New("the share is missing: write a fraction such as 0.25 or a percentage such as 25%")
	}
	digits, percent := strings.CutSuffix(arg, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil {
		return nil, fmt.Errorf("the share %q is no number: write a fraction such as 0.25 or a percentage such as 25%%", arg)
	}
	if !percent && share > 1 && share <= 100 {
		return nil, fmt.Errorf("the share %s is more than everything: did you mean %s%%?", arg, arg)
	}
	if percent {
		share /= 100
	}
	if math.IsNaN(share) || share <= 0 || share > 1 {
		return nil, fmt.Errorf("the share %s is out of range: it has to be above 0 and at most 1 (or 100%%)", arg)
	}
	return &sample{below: uint64(share * (1 << hashBits))}, nil
}

func (t *sample) Apply(in *Record, out []Record) ([]Record, error) {
	if sampleHash(in)>>(64-hashBits) < t.below {
		out = append(out, *in)
	}
	return out, nil
}

// FNV-1a, 64 bits.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

// sampleHash is FNV-1a over the key, or over the coordinates of a record without one. It
// is written out because hash/fnv goes through an interface per record, and because
// hash/maphash, with its seed per process, would choose anew after each restart. The
// golden pins it: another hash would send other keys through after an upgrade.
func sampleHash(in *Record) uint64 {
	hash := fnvOffset
	if in.Key != nil {
		for _, b := range in.Key {
			hash = (hash ^ uint64(b)) * fnvPrime
		}
		return avalanche(hash)
	}
	for i := range len(in.Topic) {
		hash = (hash ^ uint64(in.Topic[i])) * fnvPrime
	}
	hash = avalanche(hash ^ uint64(uint32(in.Partition)))
	return avalanche(hash ^ uint64(in.Offset))
}

// avalanche spreads every input bit over the upper bits, which decide. FNV alone leaves
// those of short, similar keys close together. It is the finalizer of MurmurHash3.
func avalanche(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}
