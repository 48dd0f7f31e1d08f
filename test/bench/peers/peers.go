// Package peers names the programs that others would use for the bridge's main job: one topic copied to another,
// partition by partition, exactly-once. They lie beside this file in their own languages, each tuned as a careful
// user would; `make peers` builds them.
package peers

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/eosbridge/eosbridge/test/bench/variant"
)

// Folder is where `make peers` puts what it builds, below the repository's root.
const Folder = ".cache/peers"

// peer is one program, with what differs from the others.
type peer struct {
	about  string
	made   string // the file that is there once it is built, below the folder
	jvm    bool
	loose  bool // the group's positions are commits of their own, behind the output
	launch func(dir string, w variant.Work) (path string, args []string)
}

var all = map[string]peer{
	"streams": {
		about: "Kafka Streams 4.4.0, exactly_once_v2, one thread",
		made:  "streams/streams-1.jar",
		jvm:   true,
		launch: func(dir string, _ variant.Work) (string, []string) {
			return "java", java(filepath.Join(dir, "streams"), "peers.StreamsCopy")
		},
	},
	"flink": {
		about: "Apache Flink 2.2.1 with flink-connector-kafka 5.0.0-2.2, EXACTLY_ONCE, a local cluster, parallelism 1",
		made:  "flink/flink-1.jar",
		jvm:   true,
		loose: true,
		launch: func(dir string, w variant.Work) (string, []string) {
			args := []string{"-Djava.io.tmpdir=" + w.Dir}
			for _, p := range opened {
				args = append(args, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
			}
			return "java", append(args, java(filepath.Join(dir, "flink"), "peers.FlinkCopy")...)
		},
	},
	"rdkafka": {
		about: "librdkafka 2.16.0 (C; the library of confluent-kafka 2.16.1), one transaction after the other",
		made:  "rdkafka/rdcopy",
		launch: func(dir string, _ variant.Work) (string, []string) {
			return filepath.Join(dir, "rdkafka", "rdcopy"), nil
		},
	},
}

// opened are the packages of Java that Flink's serialization looks into.
var opened = []string{
	"java.io", "java.lang", "java.lang.reflect", "java.net", "java.text", "java.time", "java.util", "java.util.concurrent",
}

// java are the arguments that run a class of the jars in a folder.
func java(jars, class string) []string {
	return []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*"), class}
}

// javaOptions are in the environment, where others can take their place. The serial collector took a third less memory
// than G1 at the same throughput, and less CPU at low rates.
const javaOptions = "JDK_JAVA_OPTIONS=-Xms256m -Xmx1g -XX:+UseSerialGC"

// Names are the names of all peers.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Find is the peer of this name, built in a folder; see Folder. The error says what has to be done first.
func Find(name, dir string) (variant.Variant, error) {
	p, ok := all[name]
	if !ok {
		return variant.Variant{}, fmt.Errorf("peer %q: known are %q", name, Names())
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return variant.Variant{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, p.made)); err != nil {
		return variant.Variant{}, fmt.Errorf("%s is not built: %w: run make peers", name, err)
	}
	return variant.Variant{
		Name: name, About: p.about, ExactlyOnce: true, Slow: p.jvm, LoosePositions: p.loose,
		Command: func(w variant.Work) (c variant.Command, err error) {
			c.Path, c.Args = p.launch(dir, w)
			if c.Path, err = exec.LookPath(c.Path); err != nil {
				return c, fmt.Errorf("start %s: %w", name, err)
			}
			c.Env = environ(w)
			if p.jvm {
				c.Env = append(c.Env, javaOptions)
			}
			return c, nil
		},
	}, nil
}

// environ is a piece of work as all peers take it. What is not said is the program's own choice.
func environ(w variant.Work) []string {
	env := []string{
		"PEER_BOOTSTRAP=" + w.Bootstrap,
		"PEER_INPUT=" + w.In,
		"PEER_OUTPUT=" + w.Out,
		"PEER_GROUP=" + w.Group,
		"PEER_INSTANCE=" + w.Instance,
		"PEER_INTERVAL_MS=" + strconv.FormatInt(max(1, w.Interval.Milliseconds()), 10),
		"PEER_COMPRESSION=" + w.Compression,
		"PEER_STATE=" + w.Dir,
	}
	if w.Linger > 0 {
		env = append(env, "PEER_LINGER_MS="+strconv.FormatInt(max(1, w.Linger.Milliseconds()), 10))
	}
	return env
}
