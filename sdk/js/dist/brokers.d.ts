/** The addresses of the brokers of one bucket. Requests go to one of them: the leader, as far as it is known. */
export declare class Brokers {
    #private;
    readonly list: string[];
    constructor(addresses: string | readonly string[]);
    /** A single address may be that of a load balancer, so requests go to no other address then. */
    get several(): boolean;
    pick(): string;
    /**
     * Notes that a broker did not answer, or does not serve requests now. The next request goes to the one whose
     * last failure is the oldest. Returns whether that has not failed within againAfter.
     */
    failed(base: string): boolean;
    /** Notes what the head of an answer tells about the brokers. */
    answered(headers: Headers): void;
    /** The position that the next read must include, or "". */
    after(): string;
    /** Drops a position that an answer does not include, although it had to: the bucket is another one now. */
    forget(text: string): void;
    /** Drops the position that a read named if its answer does not include it. */
    include(headers: Headers, after: string): void;
}
