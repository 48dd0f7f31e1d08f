package kafka

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// folderPattern names the folders of running clusters below the folder for
// temporary files.
const folderPattern = "eosbridge-kafka-*"

// newFolder makes a folder for one cluster's data and removes those whose
// owner died without closing: a test run that is killed or times out would
// otherwise leave its data, up to gigabytes, for ever. The owner holds a lock
// on the folder's lock file; the kernel drops it with the process.
func newFolder() (dir string, release func() error, err error) {
	if err := removeDead(os.TempDir()); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp("", folderPattern)
	if err != nil {
		return "", nil, err
	}
	// The file gets its name once it is locked, so that nobody takes a folder
	// that is just being made for a dead one.
	unlock, err := lock(filepath.Join(dir, "lock.new"))
	if err == nil {
		err = os.Rename(filepath.Join(dir, "lock.new"), filepath.Join(dir, "lock"))
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() error {
		defer unlock()
		return os.RemoveAll(dir)
	}, nil
}

func removeDead(parent string) error {
	locks, err := filepath.Glob(filepath.Join(parent, folderPattern, "lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // just removed by its owner, or another user's
		}
		var gone error
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			gone = os.RemoveAll(filepath.Dir(path))
		}
		if err := errors.Join(gone, f.Close()); err != nil {
			return err
		}
	}
	return nil
}
