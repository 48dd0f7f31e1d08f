// Package variant says what a program under test is: how it is started for a piece of work, and how it ends. The
// benchmark knows no more of a program than this, whether it is the bridge, a loop around a client library, or one
// of the peers.
package variant

import (
	"os"
	"time"
)

// Work is what a program is asked to do: copy every record of one topic to another, into the partition of the same
// number, until it is told to stop. Its group has no positions at first, and then it reads from the start.
type Work struct {
	Bootstrap  string // host:port
	In, Out    string // topics; they exist
	Partitions int    // of each
	// Group is new for every run: the consumer group, and the stem of transactional ids.
	Group string
	// Instance names this process among those of the group, and again after a restart: static membership where
	// the program has it.
	Instance string
	// Interval is that of transactions, checkpoints or, without a guarantee, of commits of positions.
	Interval time.Duration
	// Compression of the output: none, gzip, snappy, lz4, zstd. Programs without a choice ignore it.
	Compression string
	// Linger of the producer; 0 is the program's own choice for the work at hand.
	Linger time.Duration
	// Memory is how much the program may take, in bytes; 0 is its own choice. Those that cannot be told ignore it.
	Memory int64
	// HTTP is a free host:port for a program that tells something of itself there.
	HTTP string
	// Pprof is a free host:port for Go's profiler; empty = off.
	Pprof string
	// Dir is a folder of this run. It is empty at the first start, kept over restarts, and removed after the run.
	Dir string
}

// Command starts a program. Its environment is Env and nothing else.
type Command struct {
	Path string
	Args []string
	Env  []string
}

// Variant is one program, in one setting.
type Variant struct {
	Name  string // short, as in tables: "streams"
	About string // one line for the page: program, version, settings that matter
	// ExactlyOnce is what the program claims; then its output must show it, after kills as well.
	ExactlyOnce bool
	// Slow says that the program needs a while after its first output until it is at its speed (a JVM): the steady
	// state of its runs begins later.
	Slow bool
	// LoosePositions says that the group's positions may lag behind the output, for the program keeps its own elsewhere.
	LoosePositions bool
	// Face says that it is the bridge, which tells of itself at Work.HTTP.
	Face bool
	// Reports says that it prints a line about its transactions at its end: see package copies.
	Reports bool
	// Stop is the signal that ends it in order; nil is SIGTERM.
	Stop os.Signal
	// AnyStatus says that its exit status after Stop means nothing (a JVM's is 143).
	AnyStatus bool
	// Command is how it is started for a piece of work.
	Command func(Work) (Command, error)
}
