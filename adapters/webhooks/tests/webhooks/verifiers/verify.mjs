// Verifies the requests in the file named by the second argument with libraries of other authors, which are installed in the
// folder named by the first one. Prints the number of checks.

import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, file] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const libraries = { standardwebhooks: require("standardwebhooks"), svix: require("svix") };

function isAcceptedBy({ Webhook, WebhookVerificationError }, request, key) {
    try {
        new Webhook(key).verify(request.body, request.headers);
        return true;
    } catch (error) {
        if (error instanceof WebhookVerificationError) return false;
        throw error;
    }
}

function isSignedAsymmetrically(request, key) {
    const headers = request.headers;
    const content = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${request.body}`);
    const x = Buffer.from(key.slice("whpk_".length), "base64").toString("base64url");
    const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    return headers["webhook-signature"]
        .split(" ")
        .map((text) => text.split(","))
        .filter(([version]) => version === "v1a")
        .some(([, signature]) => verify(null, content, publicKey, Buffer.from(signature, "base64")));
}

function results(request, key) {
    if (key.startsWith("whpk_")) return { "crypto.verify": isSignedAsymmetrically(request, key) };
    const entries = Object.entries(libraries);
    return Object.fromEntries(entries.map(([name, library]) => [name, isAcceptedBy(library, request, key)]));
}

let checks = 0;
for (const { name, request, key, isValid } of JSON.parse(readFileSync(file, "utf8"))) {
    for (const [library, accepted] of Object.entries(results(request, key))) {
        checks += 1;
        if (accepted !== isValid) {
            console.error(`${name}: ${library} ${accepted ? "accepts" : "rejects"} the request`);
            process.exit(1);
        }
    }
}
console.log(checks);
