package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// BucketSpec returns the bucket to open: Bucket, else S3Bucket, else the DefaultBucket of DataDir.
func (c *Config) BucketSpec() (string, error) {
	switch {
	case c.Bucket != "":
		return c.Bucket, nil
	case c.S3Bucket != "":
		return "s3://" + c.S3Bucket, nil
	}
	return DefaultBucket(c.DataDir)
}

// DefaultBucket returns the default of --bucket. It is a folder next to the data folder, so that
// the data folder can be deleted: seb-data has seb-bucket, any other folder NAME has NAME-bucket.
// Older versions used the folder "bucket" in the data folder; DefaultBucket returns that one if it
// has files. If both folders have files, the error names both.
func DefaultBucket(dataDir string) (string, error) {
	if dataDir == "" {
		return "", Faults{errors.New("--data-dir: must name a folder")}
	}
	inside, err := isUsed(BucketInside(dataDir))
	if err != nil {
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	}
	sibling, err := siblingBucket(dataDir)
	both := false
	if err == nil {
		both, err = isUsed(sibling)
	} else if inside {
		err = nil
	}
	switch {
	case err != nil:
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	case inside && both:
		return "", Faults{fmt.Errorf("--bucket: records may be in %s (the default of older versions) and in %s: name the right one, or move the other one away",
			BucketInside(dataDir), sibling)}
	case inside:
		return "file:" + BucketInside(dataDir), nil
	}
	return "file:" + sibling, nil
}

// BucketInside returns the default bucket of older versions: a folder in the data folder.
func BucketInside(dataDir string) string { return filepath.Join(dataDir, "bucket") }

// MoveHint returns the command that moves the default bucket of older versions to DefaultBucket.
func MoveHint(dataDir string) string {
	sibling, err := siblingBucket(dataDir)
	if err != nil {
		return "name another folder with --bucket"
	}
	return "stop the broker and run: mv " + BucketInside(dataDir) + " " + sibling
}

// siblingBucket returns the default bucket of a data folder, which must have a parent.
func siblingBucket(dataDir string) (string, error) {
	dir := filepath.Clean(dataDir)
	if name := filepath.Base(dir); name == "." || name == ".." {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		dir = abs
	}
	parent, name := filepath.Split(dir)
	switch name {
	case "":
		return "", fmt.Errorf("required with --data-dir %s, which has no parent folder", dataDir)
	case filepath.Base(Default().DataDir):
		return parent + "seb-bucket", nil
	}
	return parent + name + "-bucket", nil
}

// isUsed reports whether a folder exists and is not empty. An unreadable folder is an error,
// because its records must not be treated as missing. A link to a missing folder is an error too,
// because its disk may not be mounted.
func isUsed(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return false, fmt.Errorf("%s is a link to a missing folder", dir)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return len(names) > 0, err
}
