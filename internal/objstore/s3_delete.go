package objstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// deleteMax is the maximum number of names of one DeleteObjects.
const deleteMax = 1000

// Delete implements Store: in bulk, or one by one if the store does not support DeleteObjects.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	if err := begin(ctx, "delete", keys...); err != nil {
		return err
	}
	for chunk := range slices.Chunk(keys, deleteMax) {
		if err := s.deleteChunk(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *S3) deleteChunk(ctx context.Context, keys []string) error {
	if len(keys) > 1 && !s.noBulk.Load() {
		unknown := false
		err := s.repeat(ctx, func() (err error) {
			unknown, err = s.deleteBulk(ctx, keys)
			return err
		})
		if err == nil {
			return nil
		}
		if !unknown {
			return fmt.Errorf("delete %d objects: %w", len(keys), err)
		}
		s.noBulk.Store(true)
	}
	for _, key := range keys {
		if err := s.repeat(ctx, func() error { return s.deleteOne(ctx, key) }); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
	}
	return nil
}

func (s *S3) deleteOne(ctx context.Context, key string) error {
	ctx, done := s.writes.wait(ctx, 0)
	defer done()
	_, x, err := send(ctx, opDelete, func(ctx context.Context) (*s3.DeleteObjectOutput, error) {
		return s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.options.Bucket, Key: aws.String(s.prefix + key)})
	})
	if x.status == http.StatusNotFound && x.code == "NoSuchKey" {
		return nil
	}
	return err
}

// deleteBulk sends one DeleteObjects; unknown says that the store does not support it.
func (s *S3) deleteBulk(ctx context.Context, keys []string) (unknown bool, err error) {
	ctx, done := s.writes.wait(ctx, s.transferTime(answerBytesMax))
	defer done()
	names := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		names[i].Key = aws.String(s.prefix + key)
	}
	out, x, err := send(ctx, opDelete, func(ctx context.Context) (*s3.DeleteObjectsOutput, error) {
		return s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.options.Bucket, Delete: &types.Delete{Objects: names, Quiet: aws.Bool(true)},
		})
	})
	if err != nil {
		lacking := x.code == "NotImplemented" || x.code == "MethodNotAllowed" || x.status == http.StatusNotImplemented ||
			x.status == http.StatusMethodNotAllowed || x.code == "InvalidRequest" || x.code == "MalformedXML" || x.code == "MissingContentMD5"
		return lacking, err
	}
	var faults []error
	for _, e := range out.Errors {
		if code := aws.ToString(e.Code); code != "NoSuchKey" {
			x := exchange{op: opDelete, code: code}
			faults = append(faults, fmt.Errorf("%s: %w: %s", aws.ToString(e.Key), x.class(), code))
		}
	}
	return false, oneClass(faults)
}

// oneClass joins errors into one of a single class: refused if any is, because repeating does not
// help then.
func oneClass(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(faults, func(err error) bool { return errors.Is(err, ErrRefused) }))
	return fmt.Errorf("%d keys failed: %w", len(faults), faults[i])
}
