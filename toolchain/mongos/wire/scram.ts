/** SCRAM-SHA-256, the client's side (RFC 5802, RFC 7677), for the internal login with the keyfile. */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

const derive = promisify(pbkdf2);

/** Salted passwords are costly (15,000 rounds); one process logs in to the same servers again and again. */
const salted = new Map<string, Promise<Buffer>>();

function saltedPassword(password: string, salt: string, iterations: number): Promise<Buffer> {
  const key = `${iterations}:${salt}:${password}`;
  let found = salted.get(key);
  if (found === undefined) {
    found = derive(password, Buffer.from(salt, "base64"), iterations, 32, "sha256");
    if (salted.size > 100) salted.clear();
    salted.set(key, found);
  }
  return found;
}

const hmac = (key: Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();

export class ScramClient {
  readonly #user: string;
  readonly #password: string;
  readonly #nonce = randomBytes(24).toString("base64");
  #serverSignature: Buffer | undefined;

  constructor(user: string, password: string) {
    this.#user = user;
    this.#password = password;
  }

  get #firstBare(): string {
    return `n=${this.#user.replaceAll("=", "=3D").replaceAll(",", "=2C")},r=${this.#nonce}`;
  }

  first(): Buffer {
    return Buffer.from(`n,,${this.#firstBare}`);
  }

  /** Answers the server's first message. Throws when the server's nonce does not extend ours. */
  async second(serverFirst: string): Promise<Buffer> {
    const fields = new Map(serverFirst.split(",").map((part) => [part.slice(0, 1), part.slice(2)]));
    const nonce = fields.get("r") ?? "";
    const iterations = Number(fields.get("i"));
    if (!nonce.startsWith(this.#nonce) || !(iterations >= 4096))
      throw new Error("the server's SCRAM message does not answer ours");
    const password = await saltedPassword(this.#password, fields.get("s") ?? "", iterations);
    const clientKey = hmac(password, "Client Key");
    const storedKey = createHash("sha256").update(clientKey).digest();
    const withoutProof = `c=biws,r=${nonce}`;
    const message = `${this.#firstBare},${serverFirst},${withoutProof}`;
    const signature = hmac(storedKey, message);
    const proof = Buffer.from(clientKey.map((byte, i) => byte ^ (signature[i] as number)));
    this.#serverSignature = hmac(hmac(password, "Server Key"), message);
    return Buffer.from(`${withoutProof},p=${proof.toString("base64")}`);
  }

  /** Checks the server's final message: it must know the password as well. */
  verify(serverFinal: string): void {
    const given = Buffer.from(serverFinal.startsWith("v=") ? serverFinal.slice(2) : "", "base64");
    const want = this.#serverSignature;
    if (want === undefined || given.length !== want.length || !timingSafeEqual(given, want))
      throw new Error("the server did not prove that it knows the keyfile");
  }
}
