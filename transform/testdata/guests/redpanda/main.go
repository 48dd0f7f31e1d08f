//go:build wasip1

// A guest for Redpanda's Data Transforms without their SDK, which does the same: a record whose
// value is "panic" panics, "env" gives the environment, "two" becomes two records, of which the
// second goes to the topic other; all others pass as they are.
//
//	GOOS=wasip1 GOARCH=wasm go build -o redpanda.wasm .
package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

//go:wasmimport redpanda_transform check_abi_version_2
func checkVersion()

//go:wasmimport redpanda_transform read_batch_header
func readBatchHeader(offset, records, epoch, attributes, lastDelta, first, last, producer, producerEpoch, sequence unsafe.Pointer) int32

//go:wasmimport redpanda_transform read_next_record
func readNextRecord(attributes, timestamp, offset, buf unsafe.Pointer, length uint32) int32

//go:wasmimport redpanda_transform write_record
func writeRecord(buf unsafe.Pointer, length uint32) int32

//go:wasmimport redpanda_transform write_record_with_options
func writeRecordTo(buf unsafe.Pointer, length uint32, options unsafe.Pointer, optionsLength uint32) int32

var batch struct {
	offset, first, last, producer         int64
	records, epoch, lastDelta, sequence   int32
	attributes, producerEpoch             int16
	recordAttributes                      uint8
	recordTimestamp, recordOffset, served int64
}

func main() {
	checkVersion()
	for {
		b := &batch
		size := readBatchHeader(unsafe.Pointer(&b.offset), unsafe.Pointer(&b.records), unsafe.Pointer(&b.epoch), unsafe.Pointer(&b.attributes),
			unsafe.Pointer(&b.lastDelta), unsafe.Pointer(&b.first), unsafe.Pointer(&b.last), unsafe.Pointer(&b.producer),
			unsafe.Pointer(&b.producerEpoch), unsafe.Pointer(&b.sequence))
		if size < 0 {
			panic("no batch: " + strconv.Itoa(int(size)))
		}
		buf := make([]byte, size)
		for range b.records {
			n := readNextRecord(unsafe.Pointer(&b.recordAttributes), unsafe.Pointer(&b.recordTimestamp), unsafe.Pointer(&b.recordOffset),
				unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
			if n < 0 {
				panic("no record: " + strconv.Itoa(int(n)))
			}
			transform(buf[:n])
			b.served++
		}
	}
}

func transform(payload []byte) {
	_, rest := sized(payload)
	value, _ := sized(rest)
	switch string(value) {
	case "panic":
		panic("asked to")
	case "env":
		write([]byte(strings.Join(os.Environ(), ",") + "|" + strconv.FormatInt(time.Now().UnixMilli(), 10) + "|" +
			strconv.FormatInt(batch.recordTimestamp, 10) + "|" + strconv.FormatInt(batch.served, 10)))
	case "two":
		write([]byte("one"))
		topic := append(binary.AppendVarint([]byte{1}, 5), "other"...)
		second := withValue([]byte("two"))
		writeRecordTo(unsafe.Pointer(&second[0]), uint32(len(second)), unsafe.Pointer(&topic[0]), uint32(len(topic)))
	default:
		if n := writeRecord(unsafe.Pointer(&payload[0]), uint32(len(payload))); int(n) != len(payload) {
			panic("not written: " + strconv.Itoa(int(n)))
		}
	}
}

func write(value []byte) {
	b := withValue(value)
	writeRecord(unsafe.Pointer(&b[0]), uint32(len(b)))
}

// withValue is a record without key and with one header.
func withValue(value []byte) []byte {
	b := binary.AppendVarint(nil, -1)
	b = append(binary.AppendVarint(b, int64(len(value))), value...)
	b = binary.AppendVarint(b, 1)
	b = append(binary.AppendVarint(b, 1), 'h')
	return append(binary.AppendVarint(b, int64(len(bytes.TrimSpace(value)))), bytes.TrimSpace(value)...)
}

func sized(b []byte) (part, rest []byte) {
	n, used := binary.Varint(b)
	if b = b[used:]; n < 0 {
		return nil, b
	}
	return b[:n], b[n:]
}
