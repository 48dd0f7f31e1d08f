package transform

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// values for the compressing transforms: nothing, little, what shrinks and what does not.
func compressible() [][]byte {
	noise := make([]byte, 100_000)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return [][]byte{{}, {0}, []byte(`{"a":1.10}`), bytes.Repeat([]byte("order "), 50_000), noise, bytes.Repeat(noise[:1000], 50)}
}

func TestCompressRoundTrip(t *testing.T) {
	for _, codec := range []string{"gzip", "zstd"} {
		one := parseWith(t, registered, "compress("+codec+")").New()
		back := parseWith(t, registered, "decompress("+codec+")").New()
		var first [][]byte
		for run := range 2 {
			for i, value := range compressible() {
				out, err := one.Apply(&Record{Value: value}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if run == 0 {
					first = append(first, out[0].Value)
				} else if !bytes.Equal(out[0].Value, first[i]) {
					t.Errorf("%s: value %d is compressed differently the second time", codec, i)
				}
				again, err := back.Apply(&out[0], nil)
				if err != nil || again[0].Value == nil || !bytes.Equal(again[0].Value, value) {
					t.Errorf("%s: value %d of %d bytes came back as %d bytes, %v", codec, i, len(value), len(again), err)
				}
			}
		}
	}
}

// TestCompressGzipIsReadByOthers: the standard library reads it and finds no time in it.
func TestCompressGzipIsReadByOthers(t *testing.T) {
	out, err := parseWith(t, registered, "compress(gzip)").New().Apply(&Record{Value: []byte("hello")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(out[0].Value))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); string(text) != "hello" || err != nil || !r.ModTime.IsZero() || r.Name != "" {
		t.Errorf("%q, %v, time %v, name %q", text, err, r.ModTime, r.Name)
	}
}

// TestDecompressBomb: what would become large is refused before it has.
func TestDecompressBomb(t *testing.T) {
	zeros := make([]byte, defaultDecompressed+1)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(zeros); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for expr, value := range map[string][]byte{
		"decompress(gzip)":       packed.Bytes(),
		"decompress(gzip, 1MiB)": packed.Bytes(),
		"decompress(zstd)":       encoder.EncodeAll(zeros, nil),
		"decompress(zstd, 1MiB)": encoder.EncodeAll(zeros[:2<<20], nil),
	} {
		chain := parseWith(t, registered, expr).New()
		in := Record{Value: value}
		if out, err := chain.Apply(&in, nil); err == nil || !strings.Contains(err.Error(), "is larger than") || len(out) != 0 {
			t.Errorf("%s of %d bytes: %d results, %v", expr, len(value), len(out), err)
		}
	}
}

// TestDecompressForeignZstd: a writer that streams announces a window far larger than a
// small value.
func TestDecompressForeignZstd(t *testing.T) {
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(commonWindow), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("order "), 10_000)
	for part := text; len(part) > 0; part = part[10_000:] { // in pieces, so that the size is not known at first
		if _, err := w.Write(part[:10_000]); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := parseWith(t, registered, "decompress(zstd, 64KiB)").New().Apply(&Record{Value: packed.Bytes()}, nil)
	if err != nil || !bytes.Equal(out[0].Value, text) {
		t.Errorf("%v", err)
	}
}

func FuzzDecompress(f *testing.F) {
	f.Add([]byte("\x1f\x8b\b\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("(\xb5/\xfd \x00\x01\x00\x00"))
	const limit = 64 << 10
	var codecs []Transform
	for _, arg := range []string{"gzip, 64KiB", "zstd, 64KiB"} {
		t, err := newDecompress(arg)
		if err != nil {
			f.Fatal(err)
		}
		codecs = append(codecs, t)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, codec := range codecs {
			out, err := codec.Apply(&Record{Value: value}, nil)
			again, errAgain := codec.Apply(&Record{Value: value}, nil)
			if (err == nil) != (errAgain == nil) {
				t.Fatalf("%v, the second time %v", err, errAgain)
			}
			if err != nil {
				continue
			}
			if value != nil && (out[0].Value == nil || len(out[0].Value) > limit) || !bytes.Equal(out[0].Value, again[0].Value) {
				t.Fatalf("%d bytes, then %d", len(out[0].Value), len(again[0].Value))
			}
		}
	})
}
