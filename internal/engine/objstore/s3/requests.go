package s3

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// Put implements objstore.Store with one request.
func (s *Store) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := objstore.CheckBody(key, body); err != nil {
		return err
	}
	reader := newPartsReader(body)
	defer reader.detach()
	in := &awss3.PutObjectInput{Body: reader, ContentLength: &body.Size}
	if body.HasCRC && !s.options.NoChecksum {
		var sum [4]byte
		binary.BigEndian.PutUint32(sum[:], body.CRC32C)
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	}
	return s.put(ctx, key, in)
}

// PutFile implements objstore.FilePutter. It reads the file twice, because a signature of the bytes
// precedes them.
func (s *Store) PutFile(ctx context.Context, key string, content *io.SectionReader) error {
	return s.put(ctx, key, &awss3.PutObjectInput{Body: content, ContentLength: aws.Int64(content.Size())})
}

func (s *Store) put(ctx context.Context, key string, in *awss3.PutObjectInput) error {
	if err := objstore.Begin(ctx, "put", key); err != nil {
		return err
	}
	ctx, done := s.writes.wait(ctx, s.transferTime(*in.ContentLength))
	defer done()
	in.Bucket, in.Key, in.IfNoneMatch = &s.options.Bucket, aws.String(s.prefix+key), aws.String("*")
	in.ServerSideEncryption = types.ServerSideEncryption(s.options.Encryption) // "" sends no header
	if s.options.KMSKey != "" {
		in.SSEKMSKeyId = &s.options.KMSKey
	}
	_, _, err := send(ctx, opPut, func(ctx context.Context) (*awss3.PutObjectOutput, error) {
		return s.client.PutObject(ctx, in)
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// transferTime is the additional timeout of a request that moves bytes.
func (s *Store) transferTime(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(s.options.BytesPerSecondMin) * float64(time.Second))
}

// Get implements objstore.Store.
func (s *Store) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if err := objstore.Begin(ctx, "get", key); err != nil {
		return objstore.Object{}, err
	}
	if err := r.Validate(); err != nil {
		return objstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	var object objstore.Object
	err := s.repeat(ctx, func() (err error) {
		object, err = s.getOnce(ctx, key, r)
		return err
	})
	if err != nil {
		return objstore.Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return object, nil
}

func (s *Store) getOnce(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	limit, begin := s.reads.limit(), time.Now()
	ctx, dog := watch(ctx, limit)
	in := &awss3.GetObjectInput{Bucket: &s.options.Bucket, Key: aws.String(s.prefix + key), Range: rangeHeader(r)}
	out, x, err := send(ctx, opGet, func(ctx context.Context) (*awss3.GetObjectOutput, error) {
		return s.client.GetObject(ctx, in)
	})
	dog.done()
	s.reads.note(ctx, limit, begin)
	if err != nil {
		dog.stop()
		if r.Offset == 0 && r != objstore.Whole && x.status == http.StatusRequestedRangeNotSatisfiable {
			return objstore.Object{Body: http.NoBody}, nil // only an empty object has no byte 0
		}
		return objstore.Object{}, err
	}
	size, length, err := x.extent(r)
	if err != nil {
		_ = out.Body.Close()
		dog.stop()
		return objstore.Object{}, fmt.Errorf("%w: %w", objstore.ErrNoVerdict, err)
	}
	return objstore.Object{Size: size, Body: &objectBody{ctx: ctx, body: out.Body, left: length, dog: dog}}, nil
}

// rangeHeader is the Range header, nil for a whole object.
func rangeHeader(r objstore.Range) *string {
	switch {
	case r.Length < 0 && r.Offset == 0:
		return nil
	case r.Length < 0 || r.Length > math.MaxInt64-r.Offset:
		return aws.String(fmt.Sprintf("bytes=%d-", r.Offset))
	}
	return aws.String(fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
}

// extent returns the size of the object and the bytes to come (-1 if unknown) from the headers of a
// GET's response. It fails if they do not match the request.
func (x *exchange) extent(r objstore.Range) (size, length int64, err error) {
	if e := x.header.Get("Content-Encoding"); e != "" && e != "identity" && e != "aws-chunked" {
		return 0, 0, fmt.Errorf("unexpected Content-Encoding %q", e)
	}
	size = contentLength(x.header)
	if x.status == http.StatusOK {
		return x.wholeExtent(r, size)
	}
	var first, last, total int64
	_, err = fmt.Sscanf(x.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
	if x.status != http.StatusPartialContent || rangeHeader(r) == nil || err != nil || total < 1 {
		return 0, 0, fmt.Errorf("status %d with range %q", x.status, x.header.Get("Content-Range"))
	}
	_, wanted, err := r.Clip(total)
	if err != nil {
		// not wrapped, because err has a class of its own
		return 0, 0, fmt.Errorf("unexpected range: %v", err)
	}
	if first != r.Offset || last-first+1 != wanted || size >= 0 && size != wanted {
		return 0, 0, fmt.Errorf("unexpected range %q with %d bytes", x.header.Get("Content-Range"), size)
	}
	return total, wanted, nil
}

// wholeExtent handles status 200. A server may ignore a range; if the range starts at 0 the body
// can still be used.
func (x *exchange) wholeExtent(r objstore.Range, size int64) (int64, int64, error) {
	if r.Offset != 0 || size < 0 && r.Length > 0 {
		return 0, 0, errors.New("store ignores the Range header")
	}
	if r.Length > 0 {
		return size, min(size, r.Length), nil
	}
	return size, size, nil
}

func contentLength(h http.Header) int64 {
	var n int64
	if _, err := fmt.Sscanf(h.Get("Content-Length"), "%d", &n); err != nil || n < 0 {
		return -1
	}
	return n
}

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	if err := objstore.Alive(ctx, "list"); err != nil {
		return nil, false, err
	}
	if !objstore.PossiblePrefix(o.Prefix) {
		return nil, false, nil
	}
	in := &awss3.ListObjectsV2Input{
		Bucket: &s.options.Bucket, Prefix: aws.String(s.prefix + o.Prefix), MaxKeys: aws.Int32(int32(objstore.PageSize(o.Max))),
	}
	if o.After != "" {
		in.StartAfter = aws.String(s.prefix + o.After)
	}
	for {
		var out *awss3.ListObjectsV2Output
		err := s.repeat(ctx, func() (err error) {
			ctx, done := s.lists.wait(ctx, s.transferTime(answerBytesMax/4))
			defer done()
			out, _, err = send(ctx, opList, func(ctx context.Context) (*awss3.ListObjectsV2Output, error) {
				return s.client.ListObjectsV2(ctx, in)
			})
			return err
		})
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", o.Prefix, err)
		}
		entries, last, err := s.entries(out, aws.ToString(in.StartAfter), o.Prefix)
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", o.Prefix, err)
		}
		more := *out.IsTruncated
		if n := objstore.PageSize(o.Max); len(entries) > n { // the store returned more than requested
			entries, more = entries[:n], true
		}
		if len(entries) > 0 || !more {
			return entries, more, nil
		}
		in.StartAfter = &last // a page of foreign names only
	}
}

// entries checks a page and returns our names on it that begin with prefix. last is the last name
// on the page, including the store's prefix.
func (s *Store) entries(out *awss3.ListObjectsV2Output, after, prefix string) (entries []objstore.Entry, last string, err error) {
	if out.IsTruncated == nil || *out.IsTruncated && len(out.Contents) == 0 {
		return nil, "", fmt.Errorf("%w: truncated listing without entries", objstore.ErrNoVerdict)
	}
	last = after
	for _, o := range out.Contents {
		name := aws.ToString(o.Key)
		if name <= last {
			return nil, "", fmt.Errorf("%w: listing out of order: %q after %q", objstore.ErrRefused, name, last)
		}
		last = name
		key, ours := strings.CutPrefix(name, s.prefix)
		if !ours || !objstore.ValidKey(key) || !strings.HasPrefix(key, prefix) {
			continue
		}
		size := aws.ToInt64(o.Size)
		if size < 0 {
			return nil, "", fmt.Errorf("%w: listing has %q with %d bytes", objstore.ErrNoVerdict, name, size)
		}
		entries = append(entries, objstore.Entry{Key: key, Size: size})
	}
	return entries, last, nil
}

// repeat sends an idempotent request until it has a verdict, at most attempts times.
func (s *Store) repeat(ctx context.Context, request func() error) error {
	for attempt := 1; ; attempt++ {
		err := request()
		if attempt == s.attempts || !errors.Is(err, objstore.ErrNoVerdict) {
			return err
		}
		wait := s.pause << (attempt - 1)
		if errors.Is(err, objstore.ErrThrottled) {
			wait *= 4
		}
		if pause.Wait(ctx, pause.Spread(wait)) != nil {
			return err
		}
	}
}

// deleteMax is the maximum number of names of one DeleteObjects.
const deleteMax = 1000

// Delete implements objstore.Store: in bulk, or one by one if the store does not support DeleteObjects.
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if err := objstore.Begin(ctx, "delete", keys...); err != nil {
		return err
	}
	for chunk := range slices.Chunk(keys, deleteMax) {
		if err := s.deleteChunk(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) deleteChunk(ctx context.Context, keys []string) error {
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

func (s *Store) deleteOne(ctx context.Context, key string) error {
	ctx, done := s.writes.wait(ctx, 0)
	defer done()
	_, x, err := send(ctx, opDelete, func(ctx context.Context) (*awss3.DeleteObjectOutput, error) {
		return s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.options.Bucket, Key: aws.String(s.prefix + key)})
	})
	if x.status == http.StatusNotFound && x.code == "NoSuchKey" {
		return nil
	}
	return err
}

// deleteBulk sends one DeleteObjects; unknown says that the store does not support it.
func (s *Store) deleteBulk(ctx context.Context, keys []string) (unknown bool, err error) {
	ctx, done := s.writes.wait(ctx, s.transferTime(answerBytesMax))
	defer done()
	names := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		names[i].Key = aws.String(s.prefix + key)
	}
	out, x, err := send(ctx, opDelete, func(ctx context.Context) (*awss3.DeleteObjectsOutput, error) {
		return s.client.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
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
	i := max(0, slices.IndexFunc(faults, func(err error) bool { return errors.Is(err, objstore.ErrRefused) }))
	return fmt.Errorf("%d keys failed: %w", len(faults), faults[i])
}

// throttleCodes ask for fewer requests.
var throttleCodes = codes("SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "ThrottledException",
	"RequestThrottled", "RequestThrottledException", "RequestLimitExceeded", "TooManyRequests", "TooManyRequestsException",
	"BandwidthLimitExceeded", "ProvisionedThroughputExceededException", "EC2ThrottledException")

// doubtCodes leave open whether the request took effect, or report damage in transit, whatever
// their status.
var doubtCodes = codes("InternalError", "InternalServerError", "InternalFailure", "OperationAborted", "ConditionalRequestConflict",
	"RequestTimeout", "RequestTimeoutException", "IncompleteBody", "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch",
	"XAmzContentChecksumMismatch", "Busy", "InsufficientResources")

// refusalCodes are refusals whatever their status, because a few stores send an error body with
// status 200.
var refusalCodes = codes("AccessDenied", "AccountProblem", "AllAccessDisabled", "AuthorizationHeaderMalformed", "ExpiredToken",
	"ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "InvalidSecurity", "NoSuchBucket", "NotSignedUp",
	"PermanentRedirect", "TemporaryRedirect", "Redirect", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "UnauthorizedAccess",
	"TokenRefreshRequired", "InvalidBucketName", "NotImplemented", "MethodNotAllowed", "InvalidArgument", "EntityTooLarge",
	"InvalidObjectState", "QuotaExceeded", "XMinioStorageFull", "InvalidRange", "InvalidRequest")

func codes(names ...string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// class classifies an error response, by its code first (rule R3).
func (x *exchange) class() error {
	switch {
	case x.op == opPut && x.code == "PreconditionFailed":
		return objstore.ErrExists
	case x.op == opGet && x.status == http.StatusNotFound && x.code == "NoSuchKey":
		return objstore.ErrNotFound
	case throttleCodes[x.code], x.status == http.StatusTooManyRequests:
		return objstore.ErrThrottled
	case doubtCodes[x.code]:
		return objstore.ErrNoVerdict
	case x.op == opGet && x.status == http.StatusRequestedRangeNotSatisfiable:
		return objstore.ErrOutOfRange
	case refusalCodes[x.code]:
		return objstore.ErrRefused
	}
	switch x.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooEarly,
		499: // a proxy's status for a connection closed too early
		return objstore.ErrNoVerdict
	}
	if x.status >= 300 && x.status < 500 {
		return objstore.ErrRefused
	}
	return objstore.ErrNoVerdict
}

// verdict is nil if the store has confirmed the request, else an error of exactly one class. err is
// the client library's result.
func (x *exchange) verdict(ctx context.Context, err error) error {
	success := x.status >= 200 && x.status < 300
	switch {
	case x.status == 0 && ctx.Err() != nil:
		return fmt.Errorf("%w: %w", objstore.ErrNoVerdict, objstore.Ended(ctx))
	case x.status == 0:
		return x.unanswered(err)
	case x.code != "" || !success:
		return fmt.Errorf("%w: status %d %s", x.class(), x.status, x.code)
	case x.fault != nil:
		return fmt.Errorf("%w: %w", objstore.ErrNoVerdict, x.fault)
	case err != nil:
		return fmt.Errorf("%w: %w", objstore.ErrNoVerdict, err)
	}
	return nil
}

// unanswered is the verdict of a request without a response. A request that was never sent (no
// credentials, invalid endpoint) or that met an invalid certificate is refused, because a retry
// fails in the same way.
func (x *exchange) unanswered(err error) error {
	var certificate *tls.CertificateVerificationError
	if err == nil {
		err = errors.New("no response")
	}
	if !x.sent || errors.As(err, &certificate) {
		return fmt.Errorf("%w: %w", objstore.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", objstore.ErrNoVerdict, err)
}
