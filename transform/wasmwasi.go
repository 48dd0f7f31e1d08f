package transform

import (
	"encoding/binary"
	"fmt"
)

// What runtimes of languages need of WASI (wasi_snapshot_preview1) to come up, and nothing that
// reaches out: no files, no environment, no arguments. The clock shows the record's timestamp
// and goes on only while the guest sleeps, which takes no time; random bytes follow from the
// record's coordinates. All other functions answer "not supported".

const (
	wasiOK      = 0
	wasiBadFile = 8
	wasiFault   = 21
	wasiInvalid = 28
	wasiUnknown = 52
)

func wasiFunctions() hostFunctions {
	answers := func(errno uint64) hostCall {
		return func(i *wasmInstance, stack []uint64) {
			i.spend(hostSteps)
			stack[0] = errno
		}
	}
	return hostFunctions{
		"args_get":              {"ii:i", answers(wasiOK)},
		"args_sizes_get":        {"ii:i", (*wasmInstance).wasiNothing},
		"environ_get":           {"ii:i", answers(wasiOK)},
		"environ_sizes_get":     {"ii:i", (*wasmInstance).wasiNothing},
		"clock_res_get":         {"ii:i", (*wasmInstance).wasiResolution},
		"clock_time_get":        {"iIi:i", (*wasmInstance).wasiTime},
		"fd_close":              {"i:i", answers(wasiBadFile)},
		"fd_fdstat_get":         {"ii:i", (*wasmInstance).wasiStat},
		"fd_fdstat_set_flags":   {"ii:i", answers(wasiOK)},
		"fd_prestat_get":        {"ii:i", answers(wasiBadFile)},
		"fd_prestat_dir_name":   {"iii:i", answers(wasiBadFile)},
		"fd_read":               {"iiii:i", (*wasmInstance).wasiRead},
		"fd_write":              {"iiii:i", (*wasmInstance).wasiWrite},
		"poll_oneoff":           {"iiii:i", (*wasmInstance).wasiPoll},
		"proc_exit":             {"i:", (*wasmInstance).wasiExit},
		"random_get":            {"ii:i", (*wasmInstance).wasiRandom},
		"sched_yield":           {":i", answers(wasiOK)},
		"fd_seek":               {"iIii:i", answers(wasiBadFile)},
		"fd_filestat_get":       {"ii:i", answers(wasiBadFile)},
		"path_open":             {"iiiiiIIii:i", answers(wasiBadFile)},
		"path_filestat_get":     {"iiiii:i", answers(wasiBadFile)},
		"path_create_directory": {"iii:i", answers(wasiBadFile)},
	}
}

// wasiNothing answers that there are no arguments, or no variables of the environment.
func (i *wasmInstance) wasiNothing(stack []uint64) {
	i.put(stack[0], 4, 0)
	i.put(stack[1], 4, 0)
	stack[0] = wasiOK
}

func (i *wasmInstance) wasiResolution(stack []uint64) {
	i.put(stack[1], 8, 1_000_000)
	stack[0] = wasiOK
}

func (i *wasmInstance) wasiTime(stack []uint64) {
	i.put(stack[2], 8, uint64(i.clock))
	stack[0] = wasiOK
}

// wasiStat says of the three standard files that they are terminals, of all others that they
// are not there.
func (i *wasmInstance) wasiStat(stack []uint64) {
	if uint32(stack[0]) > 2 {
		stack[0] = wasiBadFile
		return
	}
	stat := i.written(stack[1], 24)
	clear(stat)
	stat[0] = 2 // character device
	stack[0] = wasiOK
}

// wasiRead is at the end of the input at once.
func (i *wasmInstance) wasiRead(stack []uint64) {
	if uint32(stack[0]) != 0 {
		stack[0] = wasiBadFile
		return
	}
	i.put(stack[3], 4, 0)
	stack[0] = wasiOK
}

// wasiWrite keeps the beginning of what the guest says, for the message of its error.
func (i *wasmInstance) wasiWrite(stack []uint64) {
	if fd := uint32(stack[0]); fd != 1 && fd != 2 {
		stack[0] = wasiBadFile
		return
	}
	const maxParts = 1024
	parts := stack[2] & (1<<32 - 1)
	if parts > maxParts {
		stack[0] = wasiInvalid
		return
	}
	list, written := i.handed(stack[1], parts*8), uint64(0)
	for ; len(list) > 0; list = list[8:] {
		part := i.handed(uint64(binary.LittleEndian.Uint32(list)), uint64(binary.LittleEndian.Uint32(list[4:])))
		written += uint64(len(part))
		i.said = append(i.said, part[:min(len(part), maxSaid-len(i.said))]...)
	}
	i.put(stack[3], 4, written)
	stack[0] = wasiOK
}

// wasiPoll lets the clock go on by the shortest time that the guest would sleep, and says that
// all it waits for has happened.
func (i *wasmInstance) wasiPoll(stack []uint64) {
	const maxEvents, in, out = 64, 48, 32
	count := stack[2] & (1<<32 - 1)
	if count == 0 || count > maxEvents {
		stack[0] = wasiInvalid
		return
	}
	wanted, events := i.handed(stack[0], count*in), i.written(stack[1], count*out)
	const day = int64(24*60*60) * 1_000_000_000
	least := day
	clear(events)
	for n := range int(count) {
		want, event := wanted[n*in:], events[n*out:]
		copy(event, want[:8]) // user data
		event[10] = want[8]   // kind
		if want[8] != 0 {
			continue
		}
		until := int64(min(binary.LittleEndian.Uint64(want[24:]), uint64(1)<<62))
		if want[40]&1 != 0 {
			until -= i.clock // an absolute time
		}
		least = min(least, max(until, 0))
	}
	if least < day {
		i.clock = min(i.clock+least, 1<<62)
	}
	i.put(stack[3], 4, count)
	stack[0] = wasiOK
}

func (i *wasmInstance) wasiExit(stack []uint64) {
	code := uint32(stack[0])
	i.leave(fmt.Errorf("the guest has ended with status %d%s", code, i.words()))
}

func (i *wasmInstance) wasiRandom(stack []uint64) {
	b, ok := i.bytes(stack[0], stack[1])
	if !ok {
		stack[0] = wasiFault
		return
	}
	i.spend(hostSteps + len(b)) // 32 bytes take a hash
	i.random(b)
	i.memory.wrote(stack[0]&(1<<32-1), uint64(len(b)))
	stack[0] = wasiOK
}
