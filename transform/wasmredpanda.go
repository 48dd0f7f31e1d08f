package transform

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The interface of Redpanda's Data Transforms, as its published SDKs use it (import module
// redpanda_transform, crate redpanda-transform-sdk-sys 1.1.0): the guest is a command whose main
// function asks for batches without end. Here a batch is one record, and when the guest asks for
// the second it has done its work. A record is what Kafka writes of one behind its timestamp and
// its offset (KIP-98): key, value and headers, their lengths as signed varints, -1 for null.

var (
	errRedpandaEnds    = errors.New("the guest has ended: its main function has to go on asking for records")
	errRedpandaPayload = errors.New("the guest writes a record whose lengths do not fit together")
)

// What the interface's functions answer in place of a length.
const (
	redpandaNoRecord = 1<<32 - 1 // -1
	redpandaBuffer   = 1<<32 - 2 // -2
)

func redpandaFunctions() hostFunctions {
	version := func(*wasmInstance, []uint64) {}
	return hostFunctions{
		// The guest imports the version that it was built for. 2 has added the options of a
		// write. What a guest of version 3 may import besides is refused by its name.
		"check_abi_version_1":       {":", version},
		"check_abi_version_2":       {":", version},
		"check_abi_version_3":       {":", version},
		"read_batch_header":         {"iiiiiiiiii:i", (*wasmInstance).redpandaHeader},
		"read_next_record":          {"iiiii:i", (*wasmInstance).redpandaRead},
		"write_record":              {"ii:i", (*wasmInstance).redpandaWrite},
		"write_record_with_options": {"iiii:i", (*wasmInstance).redpandaWrite},
	}
}

// applyRedpanda runs the guest's main function with one record.
func (i *wasmInstance) applyRedpanda() error {
	i.payload = appendPayload(i.payload[:0], i.in)
	err := i.entry.CallWithStack(i.ctx, i.stack[:])
	switch {
	case err == nil:
		return fmt.Errorf("%w%s", errRedpandaEnds, i.words())
	case i.fault == errWASMDone: //nolint:errorlint // it is this very value or none
		return nil
	default:
		return i.reason(err)
	}
}

// errWASMDone is no fault: the guest asks for the next batch.
var errWASMDone = errors.New("done")

func (i *wasmInstance) redpandaHeader(stack []uint64) {
	i.spend(hostSteps)
	if i.in == nil {
		stack[0] = redpandaNoRecord
		return
	}
	if i.reads++; i.reads > 1 {
		if !i.taken {
			i.leave(errors.New("the guest asks for the next record without having read this one"))
		}
		i.leave(errWASMDone)
	}
	millis := uint64(i.in.Timestamp.UnixMilli())
	for n, field := range []struct {
		size  uint64
		value uint64
	}{
		{8, uint64(i.in.Offset)}, // base offset
		{4, 1},                   // records
		{4, 0},                   // leader epoch: not known here
		{2, 0},                   // attributes
		{4, 0},                   // last offset delta
		{8, millis},              // first timestamp
		{8, millis},              // last timestamp
		{8, 1<<64 - 1},           // producer id: none
		{2, 1<<16 - 1},           // producer epoch: none
		{4, 1<<32 - 1},           // sequence: none
	} {
		i.put(stack[n], field.size, field.value)
	}
	stack[0] = uint64(len(i.payload))
}

// put writes a number into the guest's memory.
func (i *wasmInstance) put(at, size, value uint64) {
	b := i.written(at, size)
	for n := range b {
		b[n] = byte(value >> (8 * n))
	}
}

func (i *wasmInstance) redpandaRead(stack []uint64) {
	if i.in == nil || i.reads == 0 || i.taken {
		stack[0] = redpandaNoRecord
		return
	}
	buf := i.handed(stack[3], stack[4])
	if len(buf) < len(i.payload) {
		stack[0] = redpandaBuffer
		return
	}
	i.put(stack[0], 1, 0)
	i.put(stack[1], 8, uint64(i.in.Timestamp.UnixMilli()))
	i.put(stack[2], 8, uint64(i.in.Offset))
	i.taken = true
	i.memory.wrote(stack[3]&(1<<32-1), uint64(len(i.payload)))
	stack[0] = uint64(copy(buf, i.payload))
}

// redpandaWrite is write_record, and write_record_with_options if there are some.
func (i *wasmInstance) redpandaWrite(stack []uint64) {
	if !i.taken {
		stack[0] = redpandaNoRecord
		return
	}
	data := append([]byte{}, i.handed(stack[0], stack[1])...)
	result, err := readPayload(data)
	if err != nil {
		i.leave(err)
	}
	result.Target, result.Timestamp = i.in.Target, i.in.Timestamp
	if len(stack) >= 4 {
		topic, err := readWriteOptions(i.handed(stack[2], stack[3]))
		if err != nil {
			i.leave(err)
		}
		if topic != "" {
			result.Target = topic
		}
	}
	i.emit(result)
	stack[0] = uint64(len(data))
}

// readWriteOptions reads the only option there is: 1, and a topic.
func readWriteOptions(options []byte) (string, error) {
	if len(options) == 0 {
		return "", nil
	}
	if options[0] != 1 {
		return "", fmt.Errorf("the guest writes a record with the option %d: only 1, a topic, is known", options[0])
	}
	r := payloadReader{data: options[1:]}
	topic := r.sized()
	if r.err != nil || len(r.data) > 0 {
		return "", errRedpandaPayload
	}
	return string(topic), nil
}

func appendPayload(out []byte, r *Record) []byte {
	out = appendField(out, r.Key, r.Key == nil)
	out = appendField(out, r.Value, r.Value == nil)
	out = binary.AppendVarint(out, int64(len(r.Headers)))
	for n := range r.Headers {
		out = binary.AppendVarint(out, int64(len(r.Headers[n].Key)))
		out = append(out, r.Headers[n].Key...)
		out = appendField(out, r.Headers[n].Value, r.Headers[n].Value == nil)
	}
	return out
}

func appendField(out, field []byte, null bool) []byte {
	if null {
		return binary.AppendVarint(out, -1)
	}
	return append(binary.AppendVarint(out, int64(len(field))), field...)
}

type payloadReader struct {
	data []byte
	err  error
}

func (r *payloadReader) number() int64 {
	v, n := binary.Varint(r.data)
	if n <= 0 {
		r.err, r.data = errRedpandaPayload, nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

// sized reads a length and as many bytes; nil is null.
func (r *payloadReader) sized() []byte {
	n := r.number()
	switch {
	case r.err != nil || n == -1:
		return nil
	case n < -1 || n > int64(len(r.data)):
		r.err, r.data = errRedpandaPayload, nil
		return nil
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

// readPayload reads a result. data is the record's from then on. The name of a header is never
// null in Kafka: one that is counts as empty, as the SDKs take it.
func readPayload(data []byte) (Record, error) {
	r := payloadReader{data: data}
	result := Record{Key: r.sized(), Value: r.sized()}
	headers := r.number()
	if r.err == nil && (headers < 0 || headers > int64(len(r.data))/2) {
		r.err = errRedpandaPayload
	}
	if r.err == nil && headers > 0 {
		result.Headers = make([]Header, 0, headers)
		for range headers {
			result.Headers = append(result.Headers, Header{Key: string(r.sized()), Value: r.sized()})
			if r.err != nil {
				break
			}
		}
	}
	if r.err == nil && len(r.data) > 0 {
		r.err = errRedpandaPayload
	}
	return result, r.err
}
