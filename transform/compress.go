package transform

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func init() {
	Register(Definition{
		Name:  "compress",
		Usage: "compress(gzip) or compress(zstd)",
		Doc: "Compresses the value by itself, apart from the compression of Kafka's batches, for readers that expect it so. Null stays null. " +
			"The same value gives the same bytes on every run of one version of the bridge. No header says that it was done: set_header(content-encoding=gzip) does.",
		Example: "compress(zstd)",
		New:     newCompress,
	})
}

var errNoCodec = errors.New("the codec is missing: write gzip or zstd")

// zstdWindow bounds how far back, in bytes, a match may lie, and so an encoder's memory.
const zstdWindow = 1 << 20

func newCompress(arg string) (Transform, error) {
	switch arg {
	case "gzip":
		return &gzipCompress{}, nil
	case "zstd":
		// One goroutine: what several make of a value depends on who is first.
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		return &zstdCompress{encoder: encoder}, err
	case "":
		return nil, errNoCodec
	}
	return nil, fmt.Errorf("unknown codec %q: use gzip or zstd", arg)
}

// gzipCompress writes a header without time and name.
type gzipCompress struct {
	writer *gzip.Writer
	buffer bytes.Buffer
}

func (t *gzipCompress) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	t.buffer.Reset()
	if t.writer == nil {
		t.writer = gzip.NewWriter(&t.buffer)
	} else {
		t.writer.Reset(&t.buffer)
	}
	t.writer.ModTime = time.Unix(0, 0) // none; left alone, it is the year 1 and wraps around
	if _, err := t.writer.Write(in.Value); err != nil {
		return nil, err
	}
	if err := t.writer.Close(); err != nil {
		return nil, err
	}
	out[len(out)-1].Value = append(make([]byte, 0, t.buffer.Len()), t.buffer.Bytes()...)
	if t.buffer.Cap() > 64*keepCapacity {
		t.buffer = bytes.Buffer{}
	}
	return out, nil
}

type zstdCompress struct {
	encoder *zstd.Encoder
	buffer  []byte
}

func (t *zstdCompress) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	t.buffer = t.encoder.EncodeAll(in.Value, t.buffer[:0])
	out[len(out)-1].Value = append(make([]byte, 0, len(t.buffer)), t.buffer...)
	if cap(t.buffer) > 64*keepCapacity {
		t.buffer = nil
	}
	return out, nil
}
