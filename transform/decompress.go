package transform

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func init() {
	Register(Definition{
		Name:  "decompress",
		Usage: "decompress(gzip) or decompress(zstd) or decompress(codec, limit)",
		Doc: "Decompresses a value that was compressed by itself. Null stays null. A record is refused if its value is not what the codec writes, from the first byte to the last, " +
			"or if it would become larger than the limit, which is 16MiB if none is given and 64MiB at most. The limit is in bytes, KiB or MiB.",
		Example: "decompress(gzip, 4MiB)",
		New:     newDecompress,
	})
}

const (
	defaultDecompressed = 16 << 20 // bytes

	// commonWindow is the window, in bytes, that every reader of zstd is asked to support
	// (RFC 8878). The decoder refuses a window larger than what it may decompress to, and
	// writers that do not know the size announce a large one for a small value.
	commonWindow = 8 << 20
)

func newDecompress(arg string) (Transform, error) {
	r := argReader{arg: arg}
	if r.done() {
		return nil, errNoCodec
	}
	codec, _, err := r.word("the codec", ",")
	if err != nil {
		return nil, err
	}
	limit := int64(defaultDecompressed)
	more, err := r.comma()
	if err != nil {
		return nil, err
	}
	if more {
		r.space()
		start := r.at
		text, _, err := r.word("the limit", ",")
		if err != nil {
			return nil, err
		}
		if limit, err = sizeLimit(text); err != nil {
			return nil, errAt(start, err)
		}
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	switch codec {
	case "gzip":
		return &gzipDecompress{limit: limit}, nil
	case "zstd":
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(max(limit, commonWindow))))
		return &zstdDecompress{decoder, limit}, err
	}
	return nil, errAt(0, fmt.Errorf("unknown codec %q: use gzip or zstd", codec))
}

func sizeLimit(text string) (int64, error) {
	digits, unit := text, int64(1)
	if s, ok := strings.CutSuffix(text, "KiB"); ok {
		digits, unit = s, 1<<10
	} else if s, ok := strings.CutSuffix(text, "MiB"); ok {
		digits, unit = s, 1<<20
	}
	n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 31)
	if err != nil || n == 0 || int64(n)*unit > maxResult {
		return 0, fmt.Errorf("the limit %q is no size from 1 to 64MiB: write bytes, KiB or MiB, such as 4MiB", text)
	}
	return int64(n) * unit, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("decompressed, the value is larger than %d bytes", limit)
}

var errEmptyStream = errors.New("the value is not compressed: it is empty")

type gzipDecompress struct {
	limit  int64
	source bytes.Reader
	reader *gzip.Reader
}

func (t *gzipDecompress) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	value, err := t.decompressed(in.Value)
	if err != nil {
		return nil, err
	}
	out[len(out)-1].Value = value
	return out, nil
}

func (t *gzipDecompress) decompressed(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errEmptyStream
	}
	t.source.Reset(value)
	defer t.source.Reset(nil) // or it would hold the batch
	var err error
	if t.reader == nil {
		t.reader, err = gzip.NewReader(&t.source)
	} else {
		err = t.reader.Reset(&t.source)
	}
	if err != nil {
		t.reader = nil
		return nil, fmt.Errorf("the value is no gzip: %w", err)
	}
	result := bytes.NewBuffer(make([]byte, 0, min(announcedSize(value), t.limit)+bytes.MinRead))
	if _, err := result.ReadFrom(io.LimitReader(t.reader, t.limit+1)); err != nil {
		return nil, fmt.Errorf("the value is no gzip: %w", err)
	}
	if int64(result.Len()) > t.limit {
		return nil, tooLarge(t.limit)
	}
	return result.Bytes(), nil
}

// announcedSize is what the last four bytes of gzip say of the size, as far as that is
// possible: nothing shrinks by more than deflate can, about 1 to 1,032.
func announcedSize(value []byte) int64 {
	if len(value) < 4 {
		return 0
	}
	return min(int64(binary.LittleEndian.Uint32(value[len(value)-4:])), 1032*int64(len(value)))
}

type zstdDecompress struct {
	decoder *zstd.Decoder
	limit   int64
}

func (t *zstdDecompress) Apply(in *Record, out []Record) ([]Record, error) {
	out = append(out, *in)
	if in.Value == nil {
		return out, nil
	}
	if len(in.Value) == 0 {
		return nil, errEmptyStream
	}
	value, err := t.decoder.DecodeAll(in.Value, []byte{}) // never nil, which would be a tombstone
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), int64(len(value)) > t.limit:
		return nil, tooLarge(t.limit)
	case err != nil:
		return nil, fmt.Errorf("the value is no zstd: %w", err)
	}
	out[len(out)-1].Value = value
	return out, nil
}
