/** Reads the generic fields of a command: session, transaction, time limit, concerns. */
import { createHash } from "node:crypto";
import { bsonType, type Doc, encode, Value } from "../bson/document.ts";
import type { AuthenticatedUser, SessionFields } from "../context.ts";
import { CommandError, errorCode } from "../errors.ts";

/** Digest of a user as it stands in `lsid.uid`. */
function userDigest(user: AuthenticatedUser | undefined): Buffer {
  return createHash("sha256")
    .update(user === undefined ? "" : `${user.user}@${user.db}`)
    .digest();
}

/** Session fields of a command; undefined without `lsid`. */
export function sessionFields(body: Doc, user: AuthenticatedUser | undefined): SessionFields | undefined {
  const lsid = body.find("lsid");
  const txnNumber = body.find("txnNumber");
  const autocommit = body.find("autocommit");
  if (lsid === undefined) {
    if (txnNumber !== undefined)
      throw new CommandError(errorCode.InvalidOptions, "Transaction number requires a session ID to also be specified");
    return undefined;
  }
  if (!lsid.isObject())
    throw new CommandError(errorCode.TypeMismatch, `BSON field 'OperationSessionInfo.lsid' is the wrong type`);
  const id = lsid.doc().find("id");
  if (id?.type !== bsonType.binData)
    throw new CommandError(40414, "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field");
  if (autocommit?.truthy())
    throw new CommandError(errorCode.InvalidOptions, "Specifying autocommit=true is not allowed.");
  if (txnNumber !== undefined && txnNumber.type !== bsonType.long)
    throw new CommandError(errorCode.TypeMismatch, "BSON field 'OperationSessionInfo.txnNumber' is the wrong type");
  const startTransaction = body.bool("startTransaction") === true;
  if (startTransaction && autocommit === undefined)
    throw new CommandError(
      errorCode.InvalidOptions,
      "'startTransaction' field requires 'autocommit' field to also be specified",
    );
  const given = lsid.doc().find("uid");
  const uid = given ?? digestValue(user);
  return {
    lsid: encode({ id, uid }),
    key: `${id.bytes.toString("hex", id.start + 5, id.end)}-${uid.bytes.toString("hex", uid.start + 5, uid.end)}`,
    txnNumber: txnNumber?.bigint(),
    inTransaction: autocommit !== undefined,
    startTransaction,
  };
}

const digests = new WeakMap<AuthenticatedUser, Value>();

function digestValue(user: AuthenticatedUser | undefined): Value {
  const known = user === undefined ? undefined : digests.get(user);
  if (known !== undefined) return known;
  const value = Value.of(userDigest(user));
  if (user !== undefined) digests.set(user, value);
  return value;
}

/** `maxTimeMS`: milliseconds, or undefined for none (0 means none as well). */
export function maxTimeMs(body: Doc): number | undefined {
  const value = body.find("maxTimeMS");
  if (value === undefined) return undefined;
  if (!value.isNumber()) throw new CommandError(errorCode.TypeMismatch, "maxTimeMS must be a number");
  const ms = value.number();
  if (!Number.isInteger(ms) || ms < 0 || ms > 0x7fffffff)
    throw new CommandError(errorCode.BadValue, `${ms} value for maxTimeMS is out of range [0, 2147483647]`);
  return ms === 0 ? undefined : ms;
}
