package cli

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestCompressionOfTheOutput: batches arrive in the codec that was asked for.
func TestCompressionOfTheOutput(t *testing.T) {
	address := cluster(t)
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd", ""} {
		environ := map[string]string{
			"KAFKA_BOOTSTRAP_SERVERS": address, "BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "orders", "BRIDGE_GROUP_ID": "g",
		}
		want := uint8(i)
		if codec == "" {
			want = 3 // lz4 is the default
		} else {
			environ["BRIDGE_COMPRESSION"] = codec
		}
		cfg, err := loadConfig(&Context{Environ: environ, Hostname: "pod-0"})
		if err != nil {
			t.Fatal(err)
		}
		o, err := bridgeOptions(cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got := codecOf(t, append(o.Client, o.Producing...), int64(i)); got != want {
			t.Errorf("BRIDGE_COMPRESSION=%s: the batch has codec %d, want %d", codec, got, want)
		}
	}
}

// TestCompressionUnknown is refused by name.
func TestCompressionUnknown(t *testing.T) {
	_, err := loadConfig(&Context{Hostname: "pod-0", Environ: map[string]string{
		"KAFKA_BOOTSTRAP_SERVERS": "localhost:9092", "BRIDGE_INPUT_TOPICS": "in", "BRIDGE_OUTPUT_TOPIC": "orders", "BRIDGE_GROUP_ID": "g",
		"BRIDGE_COMPRESSION": "brotli",
	}})
	if err == nil || !strings.Contains(err.Error(), "BRIDGE_COMPRESSION") || !strings.Contains(err.Error(), "brotli") {
		t.Errorf("error %v", err)
	}
}

// codecOf writes one record and answers the codec of its batch.
func codecOf(t *testing.T, options []kgo.Opt, offset int64) uint8 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset().At(offset)}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: bytes.Repeat([]byte("x"), 10_000)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		if records := fetches.Records(); len(records) > 0 {
			return records[0].Attrs.CompressionType()
		}
	}
}
