import { type OutgoingMessage, type OutgoingRecord } from "./content.js";
import type { CallOptions, Transport } from "./transport.js";
import type { Event, PartitionResult, Produced, StoredRecord } from "./types.js";
export interface ProduceOptions extends CallOptions {
    /** Receives all records. Without it a record with a key goes to that of the key's hash, others to partition 0. */
    partition?: number;
    /** The broker refuses the records (offset_mismatch) unless the first one gets this offset. */
    expectedOffset?: number;
}
/** A part of produceAll: a record with its topic, a message with its queue, or an event. */
export type Item = (OutgoingRecord & {
    topic: string;
    partition?: number;
}) | (Omit<OutgoingMessage, "dedup"> & {
    queue: string;
}) | Event;
/** Appends records, with idempotent producers. */
export declare class Producers {
    #private;
    readonly transport: Transport;
    constructor(transport: Transport);
    produce(topic: string, records: readonly OutgoingRecord[], o: ProduceOptions): Promise<PartitionResult[]>;
    produceAll(items: readonly Item[], o: CallOptions): Promise<StoredRecord[]>;
}
/** The positions of the records. It throws unless the answer covers all of them. */
export declare function acknowledged(p: Produced, records: number): PartitionResult[];
