package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// BucketSpec returns the bucket to open: Bucket, else S3Bucket, else DefaultBucket of DataDir.
func (c *Config) BucketSpec() (string, error) {
	switch {
	case c.Bucket != "":
		return c.Bucket, nil
	case c.S3Bucket != "":
		return "s3://" + c.S3Bucket, nil
	}
	return DefaultBucket(c.DataDir)
}

// DefaultBucket returns the bucket of a broker that is given none, as --bucket takes it. It is a folder beside the data
// folder, so that the data folder can be deleted: seb-data has seb-bucket, any other folder NAME has NAME-bucket. Older
// versions had the folder "bucket" in the data folder: that one is used if it exists. If both hold something the error names
// both.
func DefaultBucket(dataDir string) (string, error) {
	if dataDir == "" {
		return "", Faults{errors.New("--data-dir: must name a folder")}
	}
	inside, err := holds(BucketInside(dataDir))
	if err != nil {
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	}
	beside, err := bucketBeside(dataDir)
	both := false
	if err == nil {
		both, err = holds(beside)
	} else if inside {
		err = nil
	}
	switch {
	case err != nil:
		return "", Faults{fmt.Errorf("--bucket: %w", err)}
	case inside && both:
		return "", Faults{fmt.Errorf("--bucket: records may be in %s, where older versions put them, and in %s: name the right one, or move the other away",
			BucketInside(dataDir), beside)}
	case inside:
		return "file:" + BucketInside(dataDir), nil
	}
	return "file:" + beside, nil
}

// BucketInside is the default bucket of older versions: a folder in the data folder.
func BucketInside(dataDir string) string { return filepath.Join(dataDir, "bucket") }

// MoveHint is the command that moves the default bucket of older versions to where DefaultBucket has it.
func MoveHint(dataDir string) string {
	beside, err := bucketBeside(dataDir)
	if err != nil {
		return "name another folder with --bucket"
	}
	return "stop the broker and run: mv " + BucketInside(dataDir) + " " + beside
}

// bucketBeside is the default bucket of a data folder, which must have a parent.
func bucketBeside(dataDir string) (string, error) {
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
		return "", fmt.Errorf("needed with --data-dir %s, which has no folder beside it", dataDir)
	case filepath.Base(Default().DataDir):
		return parent + "seb-bucket", nil
	}
	return parent + name + "-bucket", nil
}

// holds says whether a folder exists and is not empty. A folder that cannot be read is an error: its records must not be
// taken for missing. So is a link to a folder that is missing, which may be on a disk that is not mounted.
func holds(dir string) (bool, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return false, fmt.Errorf("%s links to a folder that is missing", dir)
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
