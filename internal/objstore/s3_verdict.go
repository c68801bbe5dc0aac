package objstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
)

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
		return ErrExists
	case x.op == opGet && x.status == http.StatusNotFound && x.code == "NoSuchKey":
		return ErrNotFound
	case throttleCodes[x.code], x.status == http.StatusTooManyRequests:
		return ErrThrottled
	case doubtCodes[x.code]:
		return ErrNoVerdict
	case refusalCodes[x.code]:
		return ErrRefused
	}
	switch x.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusPreconditionFailed, http.StatusTooEarly,
		499: // a proxy's status for a connection closed too early
		return ErrNoVerdict
	}
	if x.status >= 300 && x.status < 500 {
		return ErrRefused
	}
	return ErrNoVerdict
}

// verdict is nil if the store has confirmed the request, else an error of exactly one class. err is
// the client library's result.
func (x *exchange) verdict(ctx context.Context, err error) error {
	success := x.status >= 200 && x.status < 300
	switch {
	case x.status == 0 && ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrNoVerdict, ended(ctx))
	case x.status == 0:
		return x.unanswered(err)
	case x.code != "" || !success:
		return fmt.Errorf("%w: status %d %s", x.class(), x.status, x.code)
	case x.fault != nil:
		return fmt.Errorf("%w: %w", ErrNoVerdict, x.fault)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoVerdict, err)
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
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", ErrNoVerdict, err)
}
