package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const archiveTimeout = 10 * time.Minute

// classArchive returns an archive of the classes a broker loads (JEP 310,
// application class-data sharing) and makes it at first use: one broker is
// started for it and stopped again. A start then takes 0.7 s to the open port
// instead of 1.3 s (4.4.0, Java 17), and a third of the processor time, which
// counts when several test packages start brokers at once.
//
// Java ignores an archive of another build of itself or other jars, so at
// worst it does not help. Returns "" if java cannot make one.
func classArchive(ctx context.Context, jars string) (string, error) {
	path := filepath.Join(jars, "classes.jsa")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lock(jars + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil { // another process was quicker
		return path, nil
	}
	part := fmt.Sprintf("%s.part-%d", path, os.Getpid())
	o := Options{Version: filepath.Base(jars), Nodes: 1, Host: loopback, JVM: []string{"-XX:ArchiveClassesAtExit=" + part}}
	c, err := run(ctx, o, jars, "")
	if err != nil {
		// Perhaps an old java that does not know the flag; if it is something
		// else, the start that follows says so.
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = nil
		}
		if gone := os.Remove(part); !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return "", err
	}
	// Java writes the archive at its end. A busy machine needs minutes for that; given up, each start would try
	// again, and make the machine busier still.
	if err := errors.Join(c.Node(0).stop(archiveTimeout), c.Close()); err != nil {
		return "", errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return path, nil
}
