package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// A record on its way to a guest of eosbridge and back, numbers with the least byte first:
//
//	 0  i64  timestamp, milliseconds since 1970
//	 8  i64  offset            what a result has here is not looked at,
//	16  i32  partition         nor here,
//	20  i32  length of the source topic     nor here
//	24  i32  length of the target topic; 0: the pipeline's output
//	28  i32  length of the key; -1: null
//	32  i32  length of the value; -1: null
//	36  i32  number of headers
//	40       source topic, target topic, key, value, and of each header:
//	         i32 length of the name, i32 length of the value (-1: null), name, value
const wasmFrameHead = 40

// frameSize is how many bytes a record takes, or more than fit into 32 bits.
func frameSize(r *Record) int {
	n := wasmFrameHead + len(r.Topic) + len(r.Target) + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 8 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// writeFrame writes a record into b, which has frameSize bytes.
func writeFrame(b []byte, r *Record) {
	le := binary.LittleEndian
	le.PutUint64(b, uint64(r.Timestamp.UnixMilli()))
	le.PutUint64(b[8:], uint64(r.Offset))
	le.PutUint32(b[16:], uint32(r.Partition))
	putLength(b[20:], len(r.Topic), false)
	putLength(b[24:], len(r.Target), false)
	putLength(b[28:], len(r.Key), r.Key == nil)
	putLength(b[32:], len(r.Value), r.Value == nil)
	putLength(b[36:], len(r.Headers), false)
	b = b[wasmFrameHead:]
	b = b[copy(b, r.Topic):]
	b = b[copy(b, r.Target):]
	b = b[copy(b, r.Key):]
	b = b[copy(b, r.Value):]
	for i := range r.Headers {
		h := &r.Headers[i]
		putLength(b, len(h.Key), false)
		putLength(b[4:], len(h.Value), h.Value == nil)
		b = b[8:]
		b = b[copy(b, h.Key):]
		b = b[copy(b, h.Value):]
	}
}

func putLength(b []byte, n int, null bool) {
	if null {
		n = -1
	}
	binary.LittleEndian.PutUint32(b, uint32(n))
}

var errFrame = errors.New("the guest writes a record whose lengths do not fit together")

// frameReader takes a record apart. Its parts lie in data.
type frameReader struct {
	data []byte
	err  error
}

func (r *frameReader) length(at int, nullable bool) int {
	n := int(int32(binary.LittleEndian.Uint32(r.data[at:])))
	if n < -1 || n == -1 && !nullable {
		r.err = errFrame
		return 0
	}
	return n
}

func (r *frameReader) take(n int) []byte {
	if n < 0 || r.err != nil {
		return nil
	}
	if n > len(r.data) {
		r.err = errFrame
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

// readFrame reads a result. data is the record's from then on.
func readFrame(data []byte) (Record, error) {
	if len(data) < wasmFrameHead {
		return Record{}, fmt.Errorf("the guest writes a record of %d bytes: it has %d at least", len(data), wasmFrameHead)
	}
	r := frameReader{data: data}
	millis := int64(binary.LittleEndian.Uint64(data))
	source, target := r.length(20, false), r.length(24, false)
	key, value, headers := r.length(28, true), r.length(32, true), r.length(36, false)
	r.data = data[wasmFrameHead:]
	r.take(source)
	result := Record{Timestamp: time.UnixMilli(millis), Target: string(r.take(target)), Key: r.take(key), Value: r.take(value)}
	if r.err == nil && int64(headers)*8 > int64(len(r.data)) {
		r.err = errFrame
	}
	if r.err == nil && headers > 0 {
		result.Headers = make([]Header, 0, headers)
	}
	for range headers {
		if r.err != nil || len(r.data) < 8 {
			return Record{}, errFrame
		}
		name, value := r.length(0, false), r.length(4, true)
		r.data = r.data[8:]
		result.Headers = append(result.Headers, Header{Key: string(r.take(name)), Value: r.take(value)})
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errFrame
	}
	return result, r.err
}

// eosbridgeFunctions are what a guest of eosbridge may call.
func eosbridgeFunctions() hostFunctions {
	return hostFunctions{
		"emit": {"ii:", func(i *wasmInstance, stack []uint64) {
			result, err := readFrame(append([]byte{}, i.handed(stack[0], stack[1])...))
			if err == nil && result.Timestamp.UnixMilli() != timestampOf(i) && result.Timestamp.UnixMilli() < 0 {
				err = fmt.Errorf("the guest writes a record whose timestamp %w", errBefore1970)
			}
			if err != nil {
				i.leave(err)
			}
			if i.in != nil && result.Timestamp.UnixMilli() == i.in.Timestamp.UnixMilli() {
				result.Timestamp = i.in.Timestamp
			}
			i.emit(result)
		}},
		"refuse": {"ii:", func(i *wasmInstance, stack []uint64) {
			why := i.handed(stack[0], stack[1])
			i.said = append(i.said[:0], why[:min(len(why), maxSaid)]...)
			i.leave(fmt.Errorf("%w%s", errWASMRefused, i.words()))
		}},
	}
}

func timestampOf(i *wasmInstance) int64 {
	if i.in == nil {
		return 0
	}
	return i.in.Timestamp.UnixMilli()
}

// applyOwn hands the record to a guest of eosbridge.
func (i *wasmInstance) applyOwn() error {
	size := frameSize(i.in)
	if size > math.MaxInt32 {
		return fmt.Errorf("the record has %d bytes: a guest takes %d", size, math.MaxInt32)
	}
	i.stack[0] = uint64(size)
	if err := i.call(i.alloc); err != nil {
		return err
	}
	at := i.stack[0]
	frame, ok := i.bytes(at, uint64(size))
	if !ok || uint32(at) == 0 {
		return fmt.Errorf("the guest has no room for a record of %d bytes: raise its limit (memory: ...)%s", size, i.words())
	}
	writeFrame(frame, i.in)
	i.memory.wrote(at&(1<<32-1), uint64(size))
	i.stack = [2]uint64{at, uint64(size)}
	if err := i.call(i.entry); err != nil {
		return err
	}
	if code := int32(uint32(i.stack[0])); code != 0 {
		return fmt.Errorf("%w with %d%s", errWASMRefused, code, i.words())
	}
	return nil
}
