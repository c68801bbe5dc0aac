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

// doubtCodes leave open whether the request took effect, or tell of damage on the way, whatever their status.
var doubtCodes = codes("InternalError", "InternalServerError", "InternalFailure", "OperationAborted", "ConditionalRequestConflict",
	"RequestTimeout", "RequestTimeoutException", "IncompleteBody", "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch",
	"XAmzContentChecksumMismatch", "Busy", "InsufficientResources")

// refusalCodes are refusals even if the status does not say so: a few stores put an error's body under status 200.
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

// class sorts an answer that is an error, by its code first (rule R3).
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
		499: // a proxy's word for a connection closed too early
		return ErrNoVerdict
	}
	if x.status >= 300 && x.status < 500 {
		return ErrRefused
	}
	return ErrNoVerdict
}

// verdict is nil if the store has confirmed the request, and else an error of exactly one class. err is what the client
// library made of the answer.
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

// unanswered judges a request without an answer. What was never sent (no credentials, an endpoint that makes no sense)
// or met a wrong certificate will not be better the next time.
func (x *exchange) unanswered(err error) error {
	var certificate *tls.CertificateVerificationError
	if err == nil {
		err = errors.New("no answer")
	}
	if !x.sent || errors.As(err, &certificate) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", ErrNoVerdict, err)
}
